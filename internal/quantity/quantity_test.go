package quantity

import (
	"errors"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestParse(t *testing.T) {
	const h = int64(time.Hour)
	tests := map[string]struct {
		parse func(string) (int64, error)
		in    string
		want  int64
		err   error
	}{
		"cores":                 {ParseCPU, "8", 8000, nil},
		"half a core":           {ParseCPU, "0.5", 500, nil},
		"milli-cores":           {ParseCPU, "250m", 250, nil},
		"cpu too fine":          {ParseCPU, "0.0001", 0, ErrFraction},
		"cpu negative":          {ParseCPU, "-1", 0, ErrNegative},
		"cpu infinite":          {ParseCPU, "inf", 0, ErrSyntax},
		"cpu NaN":               {ParseCPU, "NaN", 0, ErrSyntax},
		"cpu exponent":          {ParseCPU, "1e3", 0, ErrSyntax},
		"cpu overflow":          {ParseCPU, "99999999999999999999", 0, ErrRange},
		"cpu empty":             {ParseCPU, "", 0, ErrSyntax},
		"cpu newline":           {ParseCPU, "1\n2", 0, ErrSyntax},
		"GiB":                   {ParseBytes, "64G", 64 << 30, nil},
		"GiB long":              {ParseBytes, "64GiB", 64 << 30, nil},
		"one and a half":        {ParseBytes, "1.5G", 3 << 29, nil},
		"bytes":                 {ParseBytes, "1048576", 1 << 20, nil},
		"lone i":                {ParseBytes, "5i", 0, ErrSyntax},
		"bytes overflow":        {ParseBytes, "8E", 0, ErrRange},
		"bytes max unit":        {ParseBytes, "7E", 7 << 60, nil},
		"bytes negative":        {ParseBytes, "-1G", 0, ErrNegative},
		"two hours":             {ParseDuration, "2h", 2 * h, nil},
		"day and a half":        {ParseDuration, "1d12h", 36 * h, nil},
		"plain minutes":         {ParseDuration, "30", h / 2, nil},
		"slurm clock":           {ParseDuration, "2:30:00", 5 * h / 2, nil},
		"slurm minutes":         {ParseDuration, "90:30", 90*int64(time.Minute) + 30*int64(time.Second), nil},
		"slurm days":            {ParseDuration, "1-12:00:00", 36 * h, nil},
		"duration trailing":     {ParseDuration, "2h30", 0, ErrSyntax},
		"duration unit alone":   {ParseDuration, "h", 0, ErrSyntax},
		"duration overflow":     {ParseDuration, "9999999999d", 0, ErrRange},
		"duration negative":     {ParseDuration, "-2h", 0, ErrNegative},
		"duration milliseconds": {ParseDuration, "250ms", int64(250 * time.Millisecond), nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := tt.parse(tt.in)
			if !errors.Is(err, tt.err) || got != tt.want {
				t.Errorf("%q = %d, %v; want %d, %v", tt.in, got, err, tt.want, tt.err)
			}
		})
	}
}

// What is formatted reads back as the same value.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(0, math.MaxInt64).Draw(t, "n")
		if got, err := ParseBytes(FormatBytes(n)); err != nil || got != n {
			t.Fatalf("bytes %d → %s → %d, %v", n, FormatBytes(n), got, err)
		}
		if got, err := ParseCPU(FormatCPU(n)); err != nil || got != n {
			t.Fatalf("cpu %d → %s → %d, %v", n, FormatCPU(n), got, err)
		}
		s := n / int64(time.Second) * int64(time.Second)
		if got, err := ParseDuration(FormatDuration(s)); err != nil || got != s {
			t.Fatalf("duration %d → %s → %d, %v", s, FormatDuration(s), got, err)
		}
	})
}

func TestCheckedArithmetic(t *testing.T) {
	if _, err := Add(math.MaxInt64, 1); !errors.Is(err, ErrRange) {
		t.Errorf("Add overflow: %v", err)
	}
	if _, err := Add(math.MinInt64, -1); !errors.Is(err, ErrRange) {
		t.Errorf("Add underflow: %v", err)
	}
	if v, err := Add(5, 0); v != 5 || err != nil {
		t.Errorf("5+0 = %d, %v", v, err)
	}
	if v, err := Add(5, -3); v != 2 || err != nil {
		t.Errorf("5-3 = %d, %v", v, err)
	}
	if _, err := Mul(math.MaxInt64/2, 3); !errors.Is(err, ErrRange) {
		t.Errorf("Mul overflow: %v", err)
	}
	if _, err := Mul(math.MinInt64, -1); !errors.Is(err, ErrRange) {
		t.Errorf("Mul of the least number: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"8", "0.5", "64G", "1d12h", "2:30:00", "-1", "9999999999999999999E", "1-", ":", "1.", ".5m"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, parse := range []func(string) (int64, error){ParseCPU, ParseBytes, ParseDuration, ParseCount} {
			if n, err := parse(s); err == nil && n < 0 {
				t.Errorf("%q gave %d", s, n)
			}
		}
	})
}
