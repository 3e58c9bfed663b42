package record

import "testing"

func TestGate(t *testing.T) {
	dir := t.TempDir()
	through := make(chan error, 1)
	go func() { through <- WaitGate(dir) }()
	select {
	case err := <-through:
		t.Fatalf("through a closed gate: %v", err)
	default:
	}
	for range 2 {
		if err := OpenGate(dir); err != nil {
			t.Fatal(err)
		}
	}
	if err := <-through; err != nil {
		t.Fatal(err)
	}
	if err := WaitGate(dir); err != nil {
		t.Errorf("an open gate: %v", err)
	}
	if err := WaitGate(dir + "/none"); err != nil {
		t.Errorf("no gate: %v", err)
	}
}

func TestTurn(t *testing.T) {
	dir := t.TempDir()
	for _, want := range []bool{true, false} {
		if first, err := TakeTurn(dir); first != want || err != nil {
			t.Errorf("TakeTurn: %v, %v; want %v", first, err, want)
		}
	}
	if err := LeaveTurn(dir); err != nil {
		t.Fatal(err)
	}
	if first, err := TakeTurn(dir); !first || err != nil {
		t.Errorf("TakeTurn of one that was left: %v, %v", first, err)
	}
	if _, err := TakeTurn(dir + "/none"); err == nil {
		t.Error("a turn was taken where there is no folder")
	}
}
