// Package stories runs what people do with Croft, as scripts in test/scripts, on
// one real server with real containers.
package stories

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"croft.dev/croft/test/site"
)

// parallel is how many scripts run at once: they wait more than they compute.
const parallel = "6"

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", parallel); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// TestStories runs the scripts. Those in the folder alone have the server for
// themselves, one after the other: they restart it, or fill it up. The others run
// beside each other, each with accounts of its own.
func TestStories(t *testing.T) {
	post := post(t)
	s := open(t, post)
	hub := hub(t, s)
	t.Run("alone", func(t *testing.T) {
		testscript.RunT(serial{t}, params(s, hub, post, "../scripts/alone"))
	})
	t.Run("together", func(t *testing.T) {
		p := params(s, hub, post, "../scripts")
		testscript.Run(t, p)
	})
	if t.Failed() {
		return
	}
	v, err := s.Client().VerifyLedger(t.Context())
	if err != nil || !v.OK {
		t.Errorf("after all stories the ledger doesn't verify: %+v, %v", v, err)
	}
}

// TestNamesAreApart: the stories share a site, so that no two may make a thing
// of one name.
func TestNamesAreApart(t *testing.T) {
	made := regexp.MustCompile(`(?m)^(?:as \S+ )?croft ((?:account|user|qos|partition|reservation) add \S+|class open \S+)`)
	files, err := filepath.Glob("../scripts/*.txtar")
	alone, err2 := filepath.Glob("../scripts/alone/*.txtar")
	if err := errors.Join(err, err2); err != nil || len(files) == 0 || len(alone) == 0 {
		t.Fatalf("%d and %d stories: %v", len(files), len(alone), err)
	}
	in := map[string]string{}
	for _, file := range append(files, alone...) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range made.FindAllStringSubmatch(string(text), -1) {
			if other := in[m[1]]; other != "" && other != file {
				t.Errorf("%s and %s both: %s", other, file, m[1])
			}
			in[m[1]] = file
		}
	}
}

// TestTheServerIsLeftAlone: a story that stops the server has it for itself.
func TestTheServerIsLeftAlone(t *testing.T) {
	files, err := filepath.Glob("../scripts/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d stories: %v", len(files), err)
	}
	stops := regexp.MustCompile(`(?m)^(! )?server `)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if stops.Match(text) {
			t.Errorf("%s stops the server under other stories: move it to the folder alone", file)
		}
	}
}

// open sets up the site that all stories share.
func open(t *testing.T, post office) *site.Site {
	t.Helper()
	s, err := site.Open(t.Context(), site.Config{
		Name: "stories", Users: []string{"ada", "ben", "cyn", "eve"}, Images: []string{"tiny.tar", "train.tar", "jupyter.tar"},
		Extra: "qos: [{name: normal, grace: 2s}]\ndefaults: {cpu: 0.1, mem: 64M, time: 10m, user_images: 80M, user_workspaces: 3}\nmoney: {rolling_window: 10s}\n" +
			post.config() +
			"templates: [{name: jupyter, image: \"jupyter:1\", cpu: 0.5, mem: 1G}, {name: shell, image: \"train:1\", cpu: 0.1, mem: 64M}, {name: code, hidden: true},\n" +
			"  {name: board, about: a board, image: \"tiny:1\", command: [sh, -c, \"mkdir -p /tmp/b$CROFT_BASE_URL; echo the-board >/tmp/b/index.html; exec httpd -f -p 127.0.0.1:9000 -h /tmp/b\"], apps: [{name: web, port: 9000, path: /index.html}], cpu: 0.1, mem: 64M}]\n" +
			"idle: [{accounts: [dozing], after: 20s, notice: 10s, cpu: 0.05}, {accounts: [cells], after: 20s, notice: 10s, cpu: 1}, {accounts: [musing], mode: dry-run, after: 20s, notice: 10s, cpu: 0.05}]\n",
	})
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of the server's log:\n%s", s.Tail())
		}
		if err := s.Close(); err != nil {
			t.Errorf("taking the site away: %v", err)
		}
	})
	if err == nil {
		err = s.Start(t.Context())
	}
	if err == nil {
		err = populate(t.Context(), s)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// params are testscript's for a folder of scripts.
func params(s *site.Site, hub string, post office, dir string) testscript.Params {
	return testscript.Params{
		Dir: dir, WorkdirRoot: s.Work(), RequireUniqueNames: true,
		Cmds: commands(s),
		Setup: func(e *testscript.Env) error {
			e.Vars = append(e.Vars,
				"PATH="+s.Bin()+":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
				"HOME=/root", "CROFT_SOCKET="+s.Socket(), "HTTP="+s.HTTP(), "DATA="+s.Data, "CONFIG="+s.Config(),
				"ADA="+s.User("ada"), "BEN="+s.User("ben"), "CYN="+s.User("cyn"), "EVE="+s.User("eve"),
				"ADA_HOME="+s.Home("ada"), "BEN_HOME="+s.Home("ben"), "TZ=UTC",
				"MAILS="+post.dir, "HOOKS="+post.hook, "HUB="+hub, "HUB_USER="+hubUser, "HUB_PASSWORD="+hubPassword,
			)
			e.Values[browsersKey{}] = browsers{}
			return nil
		},
	}
}

// serial is a test whose parallel parts run one after the other.
type serial struct{ *testing.T }

func (serial) Parallel()     {}
func (serial) Verbose() bool { return testing.Verbose() }
func (s serial) Run(name string, f func(testscript.T)) {
	s.T.Run(name, func(t *testing.T) { f(serial{t}) })
}

// populate makes the users known and publishes prices, for all stories.
func populate(ctx context.Context, s *site.Site) error {
	for _, args := range [][]string{
		{"user", "add", s.User("ada")}, {"user", "add", s.User("ben")}, {"user", "add", s.User("cyn")},
		{"price", "set", "--gpu", "sim=1", "--cpu", "0.01", "--mem", "0.001"},
	} {
		if out, err := s.Croft(ctx, args...).CombinedOutput(); err != nil {
			return fmt.Errorf("croft %v: %w: %s", args, err, out)
		}
	}
	return nil
}
