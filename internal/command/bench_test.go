package command_test

import (
	"fmt"
	"testing"

	"croft.dev/croft/internal/admission"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/money"
)

type fatal struct{ *testing.B }

// BenchmarkSubmit decides and folds one submission while many jobs wait.
func BenchmarkSubmit(b *testing.B) {
	for _, pending := range []int{0, 100_000} {
		b.Run(fmt.Sprintf("%d waiting", pending), func(b *testing.B) {
			s := newSim(fatal{b})
			s.must(b, s.user("root"), command.GrantGive{Account: "nlp", Amount: 1e8 * money.Credit, Source: "x"})
			ada := s.user("ada")
			for range pending {
				s.must(b, ada, command.Submit{Spec: example()})
			}
			b.ReportAllocs()
			for b.Loop() {
				s.must(b, ada, command.Submit{Spec: example()})
			}
		})
	}
}

// BenchmarkQuote prices a request and finds its start while many jobs wait.
func BenchmarkQuote(b *testing.B) {
	s := newSim(fatal{b})
	s.must(b, s.user("root"), command.GrantGive{Account: "nlp", Amount: 1e8 * money.Credit, Source: "x"})
	for range 100_000 {
		s.must(b, s.user("ada"), command.Submit{Spec: example()})
	}
	ada := s.user("ada")
	b.ReportAllocs()
	for b.Loop() {
		v := s.w.View(s.now)
		subject, spec, err := v.Resolve(ada, example())
		if err != nil {
			b.Fatal(err)
		}
		if _, err := admission.Quote(v, admission.Request{Subject: subject, Spec: spec}); err != nil {
			b.Fatal(err)
		}
	}
}
