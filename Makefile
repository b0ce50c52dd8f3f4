# `make` lists the targets: the comment behind each is its help.

STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.8.2
DIR  ?= .siltstone
PKGS ?= ./...

.DEFAULT_GOAL := help
.PHONY: help up build check test bench fmt lint clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

up: build ## build, and run everything in one process with the demo data (DIR=.siltstone)
	bin/siltstone up --demo --dir $(DIR)

build: ## build bin/siltstone
	go build -o bin/siltstone ./cmd/siltstone

check: lint ## the inner loop: format, vet, staticcheck, the short tests with the race detector (PKGS=./...)
	go test -race -short $(PKGS)

# With the race detector the long tests would take most of an hour; what they
# look for (lost rows, schedules, crashes) needs many runs rather than that.
test: check ## everything that CI runs: as check, and then the long tests
	go test -timeout 40m $(PKGS)

bench: ## the measured claims
	go test -run '^$$' -bench . -benchmem $(PKGS)

fmt: ## format the sources
	gofmt -w $(GOFILES)

lint:
	@out=$$(gofmt -l $(GOFILES)); if [ -n "$$out" ]; then echo "gofmt would change (make fmt):"; echo "$$out"; exit 1; fi
	go vet ./...
	go run $(STATICCHECK) ./...

clean: ## remove what was built (the data in DIR stays)
	rm -rf bin dist

GOFILES = $(shell find . -name '*.go' -not -path './.*' -not -path '*/node_modules/*')
