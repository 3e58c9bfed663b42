package keep

import (
	"errors"
	"io"
	"os"
)

// Join connects standard input and output with the keeper of a directory until either has
// ended, and returns the exit code that says how it went.
func Join(dir string) int {
	conn, err := Dial(dir)
	if errors.Is(err, ErrNone) {
		return ExitNone
	}
	if err == nil {
		_, err = io.WriteString(os.Stdout, Joined)
	}
	if err != nil {
		_, _ = io.WriteString(os.Stderr, err.Error()) // nobody else is told
		return 1
	}
	go func() {
		_, _ = io.Copy(conn, os.Stdin)
		_ = conn.Close() // whoever joined has gone
	}()
	_, _ = io.Copy(os.Stdout, conn) // its end is the terminal's, or that of who joined
	return 0
}
