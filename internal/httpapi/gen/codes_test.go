package main

import (
	"bytes"
	"os"
	"testing"
)

// The reference in the repository is the one that the constants make.
func TestCodesReferenceIsCurrent(t *testing.T) {
	want, err := codesReference("../../../api/v1/codes")
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../../docs/reference/codes.md")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want, got) {
		t.Error("docs/reference/codes.md is not current: go generate ./internal/httpapi")
	}
}
