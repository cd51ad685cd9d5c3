# The front door. `make help` lists what it can do; CMake does the work.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := build

JOBS ?= $(shell nproc)
PREFIX ?= /usr/local
# Seconds per fuzz target: `make fuzz` is for a long look, `make test` for a short one.
FUZZ_SECONDS ?= 600
SOAK_SECONDS ?= 7200
# What the micro-benchmarks of every kernel and instruction set can be read from, in some minutes.
BENCH_FLAGS ?= --benchmark_min_time=0.1

configure = cmake --preset $(1) >build-$(1).log 2>&1 || { cat build-$(1).log; exit 1; }; rm -f build-$(1).log

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1|\2/' | column -t -s '|'

.PHONY: packages
packages:
	@scripts/install-packages.sh build

.PHONY: test-packages
test-packages:
	@scripts/install-packages.sh test

.PHONY: build
build: packages ## build the executables: build/kvasir and the small build/kvasir-worker
	@$(call configure,release)
	@cmake --build build -j $(JOBS) --target kvasir kvasir-worker

.PHONY: demo
demo: build ## build, and let a swarm of four processes tell a tale while one of them is killed
	@scripts/demo.sh build/kvasir

.PHONY: test
test: test-packages ## build and run every test: unit, end to end, sanitizers, other processors, short fuzzing
	@scripts/test-all.sh

.PHONY: unit-test
unit-test: test-packages ## build and run the tests of the release build only
	@$(call configure,release)
	@cmake --build build -j $(JOBS)
	@ctest --test-dir build --output-on-failure -j $(JOBS)

.PHONY: asan-test
asan-test: test-packages ## build everything with the address and undefined-behaviour sanitizers and run every test
	@$(call configure,asan-ubsan)
	@cmake --build build-asan-ubsan -j $(JOBS)
	@ASAN_OPTIONS=detect_stack_use_after_return=0 ctest --test-dir build-asan-ubsan --output-on-failure -j $(JOBS)

.PHONY: worker-arm64
worker-arm64: ## build the worker for AArch64 as one static file, build-aarch64/kvasir-worker, and try it
	@scripts/install-packages.sh worker-arm64
	@$(call configure,aarch64)
	@cmake --build build-aarch64 -j $(JOBS) --target kvasir-worker
	@qemu-aarch64-static build-aarch64/kvasir-worker --help >/dev/null
	@qemu-aarch64-static build-aarch64/kvasir-worker --self-test

.PHONY: bench
bench: test-packages ## run the micro-benchmarks of the kernels
	@$(call configure,release)
	@cmake --build build -j $(JOBS) --target kvasir_bench
	@build/bench/kvasir_bench $(BENCH_FLAGS)

.PHONY: fuzz
fuzz: test-packages ## fuzz every parser, FUZZ_SECONDS each (default 600)
	@scripts/fuzz.sh $(FUZZ_SECONDS)

.PHONY: soak
soak: build ## generate for SOAK_SECONDS (default 7200), half of it from the expert store, and check that memory stays flat
	@scripts/soak.sh build/kvasir $(SOAK_SECONDS)

.PHONY: lint
lint: test-packages ## clang-format check, clang-tidy on changed files, cppcheck
	@$(call configure,release)
	@scripts/lint.sh

.PHONY: format
format: test-packages ## format all sources in place
	@git ls-files '*.cc' '*.h' | xargs -r clang-format-14 -i

.PHONY: install
install: build ## install executables, bundled model, man pages, completions and systemd units under PREFIX (default /usr/local)
	@cmake --install build --prefix $(PREFIX) >/dev/null
	@echo "installed $(PREFIX)/bin/kvasir"

.PHONY: clean
clean: ## remove everything that was built
	@rm -rf build build-*
