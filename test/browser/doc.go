// Package browser drives headless Chromium, for tests of what people see in theirs.
package browser
