// Package feature has constraints: expressions over the labels of a node, such as
// "nvlink & (ib | zone=a) & !old", that say on which nodes a job may run.
package feature

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// Bounds of what a constraint may be.
const (
	maxText  = 1024
	maxDepth = 32
)

// name is how a label is called; a value may be empty too.
var name = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_./-]{0,62}$`)

var value = regexp.MustCompile(`^[A-Za-z0-9_./-]{0,63}$`)

// CheckLabel returns what is wrong with a label, nil if nothing is. What passes
// can be named in a constraint.
func CheckLabel(key, val string) error {
	switch {
	case !name.MatchString(key):
		return fmt.Errorf("%q isn't a label's name: use letters, digits and _ . / -, at most 63", clip(key))
	case !value.MatchString(val):
		return fmt.Errorf("%q isn't a label's value: use letters, digits and _ . / -, at most 63", clip(val))
	}
	return nil
}

// Constraint is a parsed expression. The zero value is met by every node.
type Constraint struct{ root *term }

// term is a node of the expression's tree.
type term struct {
	op       byte // '&', '|', '!' or 0: a label
	key, val string
	valued   bool
	of       []*term
}

// Parse reads a constraint: names of labels (met by any value) and NAME=VALUE,
// joined by & (and), | (or), ! (not) and parentheses; & binds closer than |. An
// empty text is the zero Constraint.
func Parse(text string) (Constraint, error) {
	if strings.TrimSpace(text) == "" {
		return Constraint{}, nil
	}
	if len(text) > maxText {
		return Constraint{}, fmt.Errorf("is longer than %d bytes", maxText)
	}
	p := parser{rest: text}
	root, err := p.or(0)
	if err == nil && p.peek() != 0 {
		err = fmt.Errorf("stops making sense at %q: join labels by & or |", clip(p.rest))
	}
	if err != nil {
		return Constraint{}, err
	}
	return Constraint{root}, nil
}

// Met reports whether a node with these labels will do.
func (c Constraint) Met(labels map[string]string) bool { return c.root == nil || c.root.met(labels) }

func (t *term) met(labels map[string]string) bool {
	switch t.op {
	case '&':
		for _, o := range t.of {
			if !o.met(labels) {
				return false
			}
		}
		return true
	case '|':
		for _, o := range t.of {
			if o.met(labels) {
				return true
			}
		}
		return false
	case '!':
		return !t.of[0].met(labels)
	}
	v, ok := labels[t.key]
	return ok && (!t.valued || v == t.val)
}

// String is the constraint with no more spaces and parentheses than it needs;
// Parse reads it back as the same.
func (c Constraint) String() string {
	if c.root == nil {
		return ""
	}
	return c.root.text(0)
}

// text is the term as it stands below one that binds as closely as outer.
func (t *term) text(outer int) string {
	bind := map[byte]int{'|': 1, '&': 2, '!': 3}[t.op]
	switch t.op {
	case 0:
		if t.valued {
			return t.key + "=" + t.val
		}
		return t.key
	case '!':
		return "!" + t.of[0].text(bind)
	}
	var parts []string
	for _, o := range t.of {
		parts = append(parts, o.text(bind))
	}
	text := strings.Join(parts, string(t.op))
	if bind < outer {
		return "(" + text + ")"
	}
	return text
}

// parser descends recursively.
type parser struct{ rest string }

var errDepth = errors.New("is nested too deeply")

func (p *parser) peek() byte {
	p.rest = strings.TrimLeft(p.rest, " \t")
	if p.rest == "" {
		return 0
	}
	return p.rest[0]
}

func (p *parser) or(depth int) (*term, error)  { return p.list('|', depth, p.and) }
func (p *parser) and(depth int) (*term, error) { return p.list('&', depth, p.not) }

// list reads one or more operands joined by op; operands of the same kind become
// one list.
func (p *parser) list(op byte, depth int, operand func(int) (*term, error)) (*term, error) {
	out := &term{op: op}
	for {
		t, err := operand(depth)
		if err != nil {
			return nil, err
		}
		if t.op == op {
			out.of = append(out.of, t.of...)
		} else {
			out.of = append(out.of, t)
		}
		if p.peek() != op {
			break
		}
		p.rest = p.rest[1:]
	}
	if len(out.of) == 1 {
		return out.of[0], nil
	}
	return out, nil
}

func (p *parser) not(depth int) (*term, error) {
	if depth > maxDepth {
		return nil, errDepth
	}
	switch p.peek() {
	case '!':
		p.rest = p.rest[1:]
		t, err := p.not(depth + 1)
		switch {
		case err != nil:
			return nil, err
		case t.op == '!':
			return t.of[0], nil
		}
		return &term{op: '!', of: []*term{t}}, nil
	case '(':
		p.rest = p.rest[1:]
		t, err := p.or(depth + 1)
		if err == nil && p.peek() != ')' {
			err = errors.New("lacks a closing parenthesis")
		}
		if err != nil {
			return nil, err
		}
		p.rest = p.rest[1:]
		return t, nil
	}
	return p.label()
}

func (p *parser) label() (*term, error) {
	end := strings.IndexAny(p.rest, " \t&|!()")
	if end < 0 {
		end = len(p.rest)
	}
	word := p.rest[:end]
	if word == "" {
		return nil, fmt.Errorf("wants a label before %q", clip(p.rest))
	}
	p.rest = p.rest[end:]
	t := &term{}
	t.key, t.val, t.valued = strings.Cut(word, "=")
	return t, CheckLabel(t.key, t.val)
}

func clip(s string) string {
	if len(s) <= 40 {
		return s
	}
	return strings.ToValidUTF8(s[:40], "") + "…"
}
