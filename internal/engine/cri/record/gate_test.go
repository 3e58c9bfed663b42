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
