// Package room says whether there is room left in a file system, and what takes it. It is
// used by the engine, and by croft-init as a job's user.
package room

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// least is what a file system must have left not to be called full, in bytes.
const least = 1 << 20

// Full reads what a file system says of itself: how full it is, if there is no room left.
// One without sizes, as network and virtual ones may be, isn't full.
func Full(st *unix.Statfs_t) string {
	size := uint64(st.Frsize)
	switch {
	case st.Blocks > 0 && st.Bavail*size < least:
		return fmt.Sprintf("%s of %s", amount((st.Blocks-st.Bfree)*size), amount(st.Blocks*size))
	case st.Files > 0 && st.Ffree == 0:
		return fmt.Sprintf("%d of %d files", st.Files, st.Files)
	}
	return ""
}

// amount is one for people, to a tenth.
func amount(n uint64) string {
	unit, name := uint64(1<<30), "GiB"
	if n < unit {
		unit, name = 1<<20, "MiB"
	}
	return fmt.Sprintf("%d.%d %s", n/unit, n%unit*10/unit, name)
}

// full is how full the file system of a folder is for who asks, if nothing can be written
// there. A quota that the file system doesn't speak of is found by writing to a file that
// has no name.
func full(dir string) string {
	var st unix.Statfs_t
	if unix.Statfs(dir, &st) != nil {
		return ""
	}
	if text := Full(&st); text != "" {
		return text
	}
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
	if err == nil {
		defer unix.Close(fd)
		_, err = unix.Write(fd, make([]byte, 4<<10))
	}
	if errors.Is(err, unix.EDQUOT) || errors.Is(err, unix.ENOSPC) {
		return "its quota is used up"
	}
	return ""
}

// Bounds of a look at what takes the room.
const (
	patience   = 700 * time.Millisecond // for all of it: somebody waits for a shell
	maxEntries = 50_000
	shown      = 5
)

// Notice is what a user is told whose home has no room left, and with what; empty when it
// has some, or doesn't answer in time.
func Notice(home string) string {
	if !filepath.IsAbs(home) {
		return ""
	}
	by := time.Now().Add(patience)
	said := make(chan string, 1)
	go func() { // one that doesn't answer is left behind
		text := full(home)
		if text == "" {
			said <- ""
			return
		}
		said <- words(home, text, by)
	}()
	late := time.NewTimer(patience + patience/2)
	defer late.Stop()
	select {
	case text := <-said:
		return text
	case <-late.C:
		return ""
	}
}

func words(home, how string, by time.Time) string {
	var b strings.Builder
	fmt.Fprintf(&b, "croft: your home %s is full, %s: remove something before you write there\n", printable(home), how)
	all, cut := largest(home, maxEntries, by)
	if len(all) == 0 {
		return b.String()
	}
	fmt.Fprint(&b, "croft: what takes most of it")
	if cut {
		fmt.Fprint(&b, ", of what could be seen at once")
	}
	b.WriteString(":\n")
	for _, e := range all[:min(len(all), shown)] {
		fmt.Fprintf(&b, "  %10s  %7d files  %s\n", amount(uint64(e.bytes)), e.files, printable(e.name))
	}
	return b.String()
}

// printable is a name that drives no terminal.
func printable(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return !strconv.IsPrint(r) }) {
		s = strconv.Quote(s)
	}
	const most = 100
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}

// entry is what lies directly in a home, with all below it.
type entry struct {
	name  string
	bytes int64
	files int64
}

// pending is a folder that is to be looked into, and of which entry it is.
type pending struct {
	path string
	of   *entry
}

// largest adds up what lies in a folder, the largest first; cut says that there is more than
// it has looked at. No link is followed, and no other file system entered. The folders above
// come first, so that each is seen in part before one is seen as a whole.
func largest(dir string, most int, by time.Time) (all []*entry, cut bool) {
	var root unix.Stat_t
	if unix.Lstat(dir, &root) != nil {
		return nil, false
	}
	seen := 0
	for queue := []pending{{path: dir}}; len(queue) > 0 && !cut; queue = queue[1:] {
		at := queue[0]
		cut = each(at.path, func(name string) bool {
			path := filepath.Join(at.path, name)
			var st unix.Stat_t
			if seen++; seen > most || time.Now().After(by) {
				return false
			}
			if unix.Lstat(path, &st) != nil || st.Dev != root.Dev {
				return true
			}
			of := at.of
			if of == nil {
				of = &entry{name: name}
				all = append(all, of)
			}
			of.bytes += st.Blocks * 512
			of.files++
			if st.Mode&unix.S_IFMT == unix.S_IFDIR {
				queue = append(queue, pending{path, of})
			}
			return true
		})
	}
	slices.SortFunc(all, func(a, b *entry) int {
		if a.bytes != b.bytes {
			return int(max(-1, min(1, b.bytes-a.bytes)))
		}
		return strings.Compare(a.name, b.name)
	})
	return all, cut
}

// each calls use with the names in a folder until that has enough, and says so. A folder that
// has become a link meanwhile isn't followed.
func each(dir string, use func(name string) bool) (stopped bool) {
	f, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	for {
		names, err := f.Readdirnames(256)
		for _, name := range names {
			if !use(name) {
				return true
			}
		}
		if err != nil { // io.EOF, mostly
			return false
		}
	}
}

// Spare is what the environment of a shell says whose home has no room left, so that it
// doesn't fail at what it would keep there.
func Spare() []string {
	return []string{"HISTFILE=", "LESSHISTFILE=-", "PYTHONDONTWRITEBYTECODE=1"}
}
