# SPDX-License-Identifier: GPL-2.0-only
# Thin: every step is a command that can be run by itself.  All of them can be
# interrupted and run again; what is built is kept in paratick's cache.

# One target and one set of flags for the command, its agent and the tests, so
# that everything is compiled once.  Static, because the agent is all the user
# space that a host or a guest begins with.
export CARGO_BUILD_TARGET = x86_64-unknown-linux-gnu
export CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUSTFLAGS = -C target-feature=+crt-static
CARGO_TARGET_DIR ?= target
BUILT = $(CARGO_TARGET_DIR)/$(CARGO_BUILD_TARGET)/release
PARATICK = $(BUILT)/paratick
CARGO = cargo
CARGO_TEST = $(CARGO) test --release --locked --no-fail-fast
# Without the tests that boot.
QUICK = --workspace --lib --bins --test cli --test docs --test house --test browser

# Prints the step and how long it may take.  The output of apt and cargo goes to a log.
STEP = @scripts/step
QUIET = $(STEP) --log $(CARGO_TARGET_DIR)/steps/

.DELETE_ON_ERROR:
.PHONY: help deps build tests ready kernels emulator demo test test-quick test-boot check \
	check-house check-series fmt lint clean

help: ## this list (times are for 2 cores and an empty cache)
	@awk -F':.*## ' '/^[a-z-]+:.*## /{ printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

deps: ## install the Debian packages that are missing (1 min, network)
	scripts/bootstrap

build: ## the command and its agent, linked as bin/paratick (2 min)
	$(CARGO) build --release --locked --workspace
	@mkdir -p bin && ln -sf $(abspath $(PARATICK)) bin/paratick

kernels: build ## the images of host and guest, with and without the series (12 min)
	$(PARATICK) kernel build
	$(PARATICK) kernel build --base

emulator: build ## QEMU from Debian's source, fixed for nested guests (2 min, network)
	$(PARATICK) emulator build

demo: ## from a bare machine to a table of exits and a report (16 min; 5 when all is built)
	@echo 'The demo: 5 steps, about 16 min on 2 idle cores, 5 when all is built.' >&2
	$(QUIET)packages.log 1/5 'install the Debian packages that are missing' 'about 1 min' \
	    scripts/bootstrap
	$(QUIET)build.log 2/5 'compile paratick and check this machine' 'about 2 min' \
	    $(MAKE) --no-print-directory build ready
	$(STEP) 3/5 'build the emulator' 'about 2 min' $(PARATICK) emulator build
	$(STEP) 4/5 'build the kernel' 'about 6 min' $(PARATICK) kernel build
	$(STEP) 5/5 'boot and measure, in six modes' 'about 5 min; resumes after an interruption' \
	    $(PARATICK) bench quick --report --output $(CARGO_TARGET_DIR)/demo.json

test: ## every test (36 min; 20 when all is built)
	@echo 'All tests: 6 steps, about 36 min on 2 idle cores, 20 when all is built.' >&2
	$(QUIET)packages.log 1/6 'install the Debian packages that are missing' 'about 1 min' \
	    scripts/bootstrap
	$(QUIET)tests.log 2/6 'compile paratick and its tests' 'about 4 min' \
	    $(MAKE) --no-print-directory build tests
	$(STEP) 3/6 'tests that boot nothing' 'about 2 min' $(MAKE) --no-print-directory test-quick
	$(STEP) 4/6 'build the emulator' 'about 2 min' $(PARATICK) emulator build
	$(STEP) 5/6 'build the kernels' 'about 12 min' $(MAKE) --no-print-directory kernels
	$(STEP) 6/6 'tests that boot' 'about 15 min' $(MAKE) --no-print-directory test-boot

tests: build
	$(CARGO_TEST) --no-run $(QUICK)
	$(CARGO_TEST) --no-run -p paratick --test boot

ready: build
	$(PARATICK) doctor

test-quick: build ## unit, property, CLI and browser tests: boots nothing (2 min)
	$(CARGO_TEST) $(QUICK)

test-boot: kernels emulator ## boots kernels under emulation (15 min, plus kernels and emulator)
	$(CARGO_TEST) -p paratick --test boot -- --test-threads=1

check: lint check-house check-series ## lints, source layout, kernel series (12 min)

check-house: ## no module cycles, no crate that uses one above it (1 min)
	$(CARGO) test --release --locked -p paratick --test house

check-series: build ## the kernel series: does every patch apply and compile? (10 min)
	$(PARATICK) kernel check

fmt: ## format the Rust sources
	$(CARGO) fmt --all

lint: ## what .ci/run asks of the Rust sources
	$(CARGO) fmt --all --check
	$(CARGO) clippy --release --locked --workspace --all-targets -- -D warnings

clean: ## remove what cargo built; the cache stays (paratick doctor names it)
	$(CARGO) clean
	rm -rf bin
