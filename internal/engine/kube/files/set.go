package files

import "path"

// Set is what one container has, each place once.
type Set struct {
	Parts []Part
	bare  []string // targets of what isn't of a claim
}

// Add adds a part. What has to be made for a mount to be put on is made by root, so that
// nothing is put where only others could make something.
func (s *Set) Add(p Part) error {
	for _, q := range s.Parts {
		same := p.Target == q.Target && p.Claim == q.Claim && p.Sub == q.Sub
		switch {
		case same && p.ReadOnly == q.ReadOnly:
			return nil
		case same:
			return refuse("of %s one part is to be read only and another to be written to: on this cluster it is one or the other", p.Target)
		case p.native && q.native && p.Claim == q.Claim: // what one is put on is there
		case inside(p.Target, q):
			return nested(p.Target, q)
		case inside(q.Target, p):
			return nested(q.Target, p)
		}
	}
	for _, target := range s.bare {
		if inside(target, p) {
			return nested(target, p)
		}
	}
	s.Parts = append(s.Parts, p)
	return nil
}

// Take notes the place of something else.
func (s *Set) Take(target string) error {
	target = path.Clean(target)
	for _, q := range s.Parts {
		if inside(target, q) {
			return nested(target, q)
		}
	}
	s.bare = append(s.bare, target)
	return nil
}

// inside reports whether a target is in what isn't its user's.
func inside(target string, p Part) bool {
	rel, in := below(target, p.Target)
	return in && rel != "" && !p.own
}

func nested(target string, p Part) error {
	return refuse("nothing can be put at %s, in %s, which isn't yours: choose another target", target, p.Target)
}

// Begin says where a program begins that is to begin in dir: in a folder that the node goes
// to, or in one that is for its user to go to, since a node would make it if it weren't there.
func (s *Set) Begin(dir string) (node, user string) {
	for _, p := range s.Parts {
		if dir == p.Target {
			return dir, ""
		}
	}
	for _, p := range s.Parts {
		if _, in := below(path.Clean(dir), p.Target); in {
			return "", dir
		}
	}
	return dir, ""
}
