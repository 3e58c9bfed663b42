SHELL := bash
.DEFAULT_GOAL := help
.NOTPARALLEL:

VERSION := $(shell git describe --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -s -w -X croft.dev/croft/internal/version.Version=$(VERSION)

# What the tests need besides: a browser, images of web programs.
test race: for := --test

##@ Use

.PHONY: setup
setup: ## install missing Debian packages, build the container runtime once
	@hack/setup $(for)

.PHONY: build
build: ## build croft, croftd and croft-init into bin/
	@CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags '$(LDFLAGS)' -o bin/ ./cmd/croft ./cmd/croftd ./cmd/croft-init

.PHONY: images
images: setup ## build the container images that the demo and the tests use
	@hack/images $(for)

.PHONY: demo
demo: setup build images ## run Croft on this machine with real containers
	@hack/demo

.PHONY: demo-down
demo-down: ## stop the demo and remove what it left
	@hack/demo --down

##@ Check

.PHONY: test
test: setup build images ## vet and test everything; most also under the race detector
	@hack/test

.PHONY: race
race: setup build images ## test everything under the race detector (slow)
	@hack/test --race

.PHONY: fuzz
fuzz: ## run every fuzz function for FUZZTIME (10s)
	@hack/fuzz $(FUZZTIME)

.PHONY: bench
bench: ## measure, with crictl and Slurm beside
	@hack/setup --bench
	@$(MAKE) --no-print-directory build images
	@hack/bench

.PHONY: lint
lint: ## gofmt, go vet, staticcheck
	@hack/lint/run

##@ Develop

.PHONY: generate
generate: ## run the go:generate lines
	@go generate ./...

.PHONY: hooks
hooks: ## check formatting and vet before every commit
	@hack/hooks

.PHONY: clean
clean: ## remove what was built here (the cache outside stays)
	@rm -rf bin .tools

.PHONY: help
help:
	@awk 'BEGIN { FS = ":.*## " } \
		/^##@ / { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile
