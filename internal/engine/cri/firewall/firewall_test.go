package firewall

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// TestInbound looks at what is chosen for a machine's programs, and that nothing is left
// open by accident.
func TestInbound(t *testing.T) {
	tests := map[string]struct {
		have []string
		want []string // the programs called
	}{
		"iptables alone":         {[]string{"iptables-restore", "ip6tables-restore"}, []string{"/sbin/iptables-restore -w 5", "/sbin/ip6tables-restore -w 5"}},
		"both":                   {[]string{"iptables-restore", "ip6tables-restore", "nft"}, []string{"/sbin/iptables-restore -w 5", "/sbin/ip6tables-restore -w 5"}},
		"nft alone":              {[]string{"nft"}, []string{"/sbin/nft -f -"}},
		"nft, and half iptables": {[]string{"iptables-restore", "nft"}, []string{"/sbin/nft -f -"}},
		"none":                   {nil, nil},
		"IPv6 would stay open":   {[]string{"iptables-restore"}, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			steps, err := inbound(func(p string) string {
				if slices.Contains(tt.have, p) {
					return "/sbin/" + p
				}
				return ""
			}, []uint16{8000, 9000})
			if tt.want == nil {
				if !errors.Is(err, ErrNone) {
					t.Errorf("%v, %v", steps, err)
				}
				return
			}
			if err != nil || len(steps) != len(tt.want) {
				t.Fatalf("%v, %v", steps, err)
			}
			for i, s := range steps {
				if s.argv != tt.want[i] {
					t.Errorf("calls %q, want %q", s.argv, tt.want[i])
				}
				for _, part := range []string{"8000", "9000", "lo", "accept", "drop"} {
					if !strings.Contains(strings.ToLower(s.input), part) {
						t.Errorf("%s isn't in:\n%s", part, s.input)
					}
				}
			}
		})
	}
}
