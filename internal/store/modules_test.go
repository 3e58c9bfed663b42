package store_test

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// modernc.org/sqlite is translated for one version of modernc.org/libc and is
// only right with that one; any other dependency can raise it unnoticed.
func TestLibcIsSQLitesOwn(t *testing.T) {
	list := func(format, module string) string {
		out, err := exec.Command("go", "list", "-m", "-f", format, module).Output()
		if err != nil {
			t.Fatalf("go list -m %s: %v", module, err)
		}
		return strings.TrimSpace(string(out))
	}
	mod, err := os.ReadFile(list("{{.GoMod}}", "modernc.org/sqlite"))
	if err != nil {
		t.Fatal(err)
	}
	want := regexp.MustCompile(`modernc\.org/libc (v\S+)`).FindSubmatch(mod)
	if want == nil {
		t.Fatal("modernc.org/sqlite doesn't require modernc.org/libc any more")
	}
	if have := list("{{.Version}}", "modernc.org/libc"); have != string(want[1]) {
		t.Errorf("modernc.org/libc is %s; modernc.org/sqlite was made for %s", have, want[1])
	}
}
