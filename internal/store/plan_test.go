package store

import (
	"path/filepath"
	"strings"
	"testing"

	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/ledger"
	"croft.dev/croft/internal/workload"
)

// What lists history must not read all of it. SQLite says how it would go about a
// query; PostgreSQL's plans depend on statistics and have the same indexes.
func TestHistoryUsesIndexes(t *testing.T) {
	s, err := Open(t.Context(), Config{Path: filepath.Join(t.TempDir(), "croft.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	tests := map[string]struct {
		table string
		where where
		order string
	}{
		"jobs of accounts":    {"job", JobFilter{Accounts: []id.Account{1, 2}, Before: 9}.where(), "id DESC"},
		"jobs of a user":      {"job", JobFilter{Users: []id.User{1}, Before: 9}.where(), "id DESC"},
		"page of jobs":        {"job", JobFilter{Before: 9}.where(), "id DESC"},
		"ended jobs":          {"job", JobFilter{States: []workload.JobState{workload.Ended}, Before: 9}.where(), "id DESC"},
		"grant's transfers":   {"transfer", TransferFilter{Ledger: ledger.OfGrant(1)}.where(), "id"},
		"deposit's transfers": {"transfer", TransferFilter{Ledger: ledger.Deposit(1, ledger.OfGrant(1))}.where(), "id"},
		"job's transfers":     {"transfer", TransferFilter{Job: 1}.where(), "id"},
		"account's transfers": {"transfer", TransferFilter{Account: 1}.where(), "id"},
		"page of transfers":   {"transfer", TransferFilter{After: 7}.where(), "id"},
		"an array's jobs":     {"job", JobFilter{IDs: []id.Job{5}, Elements: true}.where(), "id DESC"},
		"tiles since":         {"tile", TileFilter{From: 5, To: 6}.where(), "starts, device"},
		"job's tiles":         {"tile", TileFilter{Job: 5}.where(), "starts, device"},
		"log since":           {"log", LogFilter{After: 5}.where(), "seq"},
		"job's log":           {"log", LogFilter{Job: 5}.where(), "seq"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			rows, err := s.read.Query("EXPLAIN QUERY PLAN SELECT * FROM "+tt.table+" "+tt.where.page(tt.order, 10), tt.where.args...)
			if err != nil {
				t.Fatal(err)
			}
			defer rows.Close()
			n := 0
			for rows.Next() {
				var a, b, c int
				var step string
				if err := rows.Scan(&a, &b, &c, &step); err != nil {
					t.Fatal(err)
				}
				if n++; strings.HasPrefix(step, "SCAN "+tt.table) {
					t.Errorf("%s\n%s", step, tt.where.page(tt.order, 10))
				}
			}
			if n == 0 || rows.Err() != nil {
				t.Errorf("no plan: %v", rows.Err())
			}
		})
	}
}
