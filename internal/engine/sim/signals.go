package sim

import "strings"

// signal is a signal of Linux.
type signal struct {
	number   int
	harmless bool // by default it doesn't end a program
}

// sigkill is the number of SIGKILL; a signal that ends a program adds 128 to it.
const sigkill = 9

// lookSignal returns the signal of that name, with or without "SIG".
func lookSignal(name string) (canonical string, s signal, ok bool) {
	canonical = strings.TrimPrefix(name, "SIG")
	switch canonical {
	case "HUP":
		s.number = 1
	case "INT":
		s.number = 2
	case "QUIT":
		s.number = 3
	case "ABRT":
		s.number = 6
	case "KILL":
		s.number = sigkill
	case "USR1":
		s.number = 10
	case "USR2":
		s.number = 12
	case "ALRM":
		s.number = 14
	case "TERM":
		s.number = 15
	case "CONT":
		s = signal{18, true}
	case "URG":
		s = signal{23, true}
	case "WINCH":
		s = signal{28, true}
	default:
		return canonical, signal{}, false
	}
	return canonical, s, true
}
