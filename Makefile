# Thin targets; what takes more than a line is in scripts/.

prefix ?= /usr/local
DESTDIR ?=
N ?= 100000

.DEFAULT_GOAL := build
.PHONY: help build test check bench simulate mutants install uninstall snapshot setup clean

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## /\1	/p' $(MAKEFILE_LIST) | expand -t 12

build: ## build ./leaderrun
	CGO_ENABLED=0 go build -trimpath -o leaderrun .

test: ## run all tests, with the race detector
	scripts/test

check: ## formatting, vet, staticcheck, modules, shell scripts, manual, other systems
	scripts/check

bench: ## compare with flock, in one run
	scripts/bench

simulate: ## run N random schedules of the election (N=100000)
	go test ./election -run TestSimulation -timeout 0 -args -n=$(N)

mutants: ## break the election on purpose, rule by rule, and see the simulation fail
	go run ./scripts/mutants

install: build ## install binary, manual and completions under $(DESTDIR)$(prefix)
	scripts/install '$(DESTDIR)$(prefix)'

uninstall: ## remove what install installed
	scripts/install -r '$(DESTDIR)$(prefix)'

snapshot: ## build the release archives and packages into dist/, publishing nothing
	scripts/goreleaser release --snapshot --clean

setup: ## install what check, test and snapshot need
	scripts/setup

clean: ## remove what the build made
	rm -rf leaderrun dist
