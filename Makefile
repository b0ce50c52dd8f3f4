# `make` lists the targets: the comment behind each is its help.

STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.8.2
MINIO_VERSION = v0.0.0-20260212201848-7aac2a2c5b7c
DIR  ?= .siltstone
PKGS ?= ./...

.DEFAULT_GOAL := help
.PHONY: help up build ui check test bench minio fmt lint clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

up: build ## build, and run everything in one process with the demo data (DIR=.siltstone)
	bin/siltstone up --demo --dir $(DIR)

build: ui ## build bin/siltstone, with the viewer's page in it
	go build -o bin/siltstone ./cmd/siltstone

ui: viewer-ui/node_modules/.package-lock.json ## build the viewer's page (Node 20 or later; go build works without it)
	cd viewer-ui && npm run --silent build
	mkdir -p cmd/siltstone/viewer
	rm -rf cmd/siltstone/viewer/dist && cp -r viewer-ui/dist cmd/siltstone/viewer/dist

viewer-ui/node_modules/.package-lock.json: viewer-ui/package-lock.json
	cd viewer-ui && npm ci --silent
	@touch $@

check: lint ## the inner loop: format, vet, staticcheck, the short tests with the race detector (PKGS=./...)
	go test -race -short $(PKGS)
	cd viewer-ui && npm run --silent unit

# With the race detector the long tests would take most of an hour; what they
# look for (lost rows, schedules, crashes) needs many runs rather than that.
test: check build ## everything that CI runs: as check, then the long tests and those in a browser (Chromium)
	MINIO=$(wildcard $(CURDIR)/bin/minio) go test -timeout 40m $(PKGS)
	cd viewer-ui && npm run --silent e2e

bench: build ## the measured claims: bench/README.md has the tables
	go run ./bench/latency bin/siltstone
	go run ./bench/merge -siltstone bin/siltstone
	go run ./bench/export -siltstone bin/siltstone
	go run ./bench/trickle
	go test -run '^$$' -bench . -benchmem $(PKGS)

minio: bin/minio ## build MinIO, the second real store of the tests (minutes; it is run, never linked)

bin/minio:
	GOBIN=$(CURDIR)/bin go install github.com/minio/minio@$(MINIO_VERSION)

fmt: ## format the sources
	gofmt -w $(GOFILES)

lint: viewer-ui/node_modules/.package-lock.json
	@out=$$(gofmt -l $(GOFILES)); if [ -n "$$out" ]; then echo "gofmt would change (make fmt):"; echo "$$out"; exit 1; fi
	go vet ./...
	go run $(STATICCHECK) ./...
	cd viewer-ui && npm run --silent lint && npm run --silent types

clean: ## remove what was built (the data in DIR stays)
	rm -rf bin dist viewer-ui/dist viewer-ui/node_modules cmd/siltstone/viewer/dist

GOFILES = $(shell find . -name '*.go' -not -path './.*' -not -path '*/node_modules/*')
