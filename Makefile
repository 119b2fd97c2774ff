# SPDX-License-Identifier: GPL-2.0-only
# Thin: every step is a command that can be run by itself.  All of them can be
# interrupted and run again; what is built is kept in paratick's cache.

CARGO_TARGET_DIR ?= target
# .cargo/config.toml names the target.
BUILT = $(CARGO_TARGET_DIR)/x86_64-unknown-linux-gnu/release
PARATICK = $(BUILT)/paratick
CARGO = cargo
CRATES = CARGO_TARGET_DIR=$(CARGO_TARGET_DIR) scripts/crates
# Each test in a process of its own; tests/suites.toml has the suites.
TESTS = scripts/tests
QUICK = unit cli docs house browser
# Everything else that exists, in the order of what it needs.
MORE = slow long debug debug-fuzzer tick-accounting irq-accounting soak intel packages series

# Prints the step and how long it may take.  The output of apt and cargo goes to a log.
STEP = @scripts/step
QUIET = $(STEP) --log $(CARGO_TARGET_DIR)/steps/

.DELETE_ON_ERROR:
.PHONY: help deps build tests ready kernel kernels emulator emulator-beside first \
	kernel-beside deb demo evaluation test test-quick test-boot test-all \
	test-intel test-debug soak check check-house check-series check-quick fmt lint clean

help: ## this list (times are for 2 cores and an empty cache)
	@awk -F':.*## ' '/^[a-z-]+:.*## /{ printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

deps: ## install the Debian packages that are missing (1 min, network)
	scripts/bootstrap

build: ## the command and its agent, linked as bin/paratick (2 min)
	@$(CRATES) fetch
	$(CARGO) build --release --locked --workspace
	@$(CRATES) keep
	@mkdir -p bin && ln -sf $(abspath $(PARATICK)) bin/paratick

kernel:
	$(PARATICK) kernel build

# What is made beside something else writes to a log; its end is shown where it fails.
BESIDE = @mkdir -p $(CARGO_TARGET_DIR)/steps; scripts/beside $(CARGO_TARGET_DIR)/steps/

emulator-beside:
	$(BESIDE)emulator.log $(PARATICK) emulator build

kernel-beside:
	$(BESIDE)kernel.log $(PARATICK) kernel build

# The numbers that need no kernel to be built: Debian's own, as host and as guest.
first:
	$(PARATICK) bench quick --kernel debian:6.12 --modes tickless --rounds 1 --repeat 1 \
	    --output $(CARGO_TARGET_DIR)/demo-debian.json

kernels: build ## the images: with the series and without (up to 18 min)
	$(PARATICK) kernel build
	$(PARATICK) kernel build --base

emulator: build ## QEMU from Debian's source, fixed for nested guests (2 min, network)
	$(PARATICK) emulator build

deb: ## the Debian packages, in target/deb (3 min)
	scripts/bootstrap --with packages
	scripts/deb

demo: ## from a bare machine to tables of exits and a report (12 to 20 min)
	@echo 'The demo: 5 steps, 12 to 20 min on 2 idle cores, 3 to 6 when all is built.' >&2
	@echo 'The first table is that of a kernel of Debian; our modes come at the end.' >&2
	$(QUIET)packages.log 1/5 'install the Debian packages that are missing' 'about 1 min' \
	    scripts/bootstrap
	$(QUIET)build.log 2/5 'compile paratick and check this machine' '2 to 3 min' \
	    $(MAKE) --no-print-directory build ready
	$(STEP) 3/5 'build the emulator' '2 to 3 min' $(PARATICK) emulator build
	$(STEP) 4/5 'measure a kernel of Debian'"'"'s, and beside that build ours' \
	    'first table after half a minute, all after 6 to 9 min' \
	    $(MAKE) -j2 --no-print-directory first kernel-beside
	$(STEP) 5/5 'boot and measure, in 7 modes' '3 to 4 min; resumes after an interruption' \
	    $(PARATICK) bench quick --report --output $(CARGO_TARGET_DIR)/demo.json

evaluation: build ## measure the tables that are of another series than today's (9 h for all)
	scripts/bootstrap --with benches --with network --with evaluation
	scripts/evaluation

test: ## what CI runs; covers every subject (41 min from nothing, 19 to 32 when built)
	@echo 'Tests: 5 steps, 41 min or more from nothing, 19 to 32 when all is built.' >&2
	$(QUIET)packages.log 1/5 'install the Debian packages that are missing' 'about 1 min' \
	    scripts/bootstrap
	$(QUIET)tests.log 2/5 'compile paratick and its tests' 'about 4 min' \
	    $(MAKE) --no-print-directory build tests
	$(STEP) 3/5 'tests that boot nothing' 'about 2 min' $(TESTS) $(QUICK)
	$(STEP) 4/5 'build the kernels, and beside them the emulator' 'up to 18 min' \
	    $(MAKE) -j2 --no-print-directory kernels emulator-beside
	$(STEP) 5/5 'tests that boot' '10 to 40 min' $(TESTS) boot

test-all: ## every test that exists; hours; run it again to go on where it was stopped
	scripts/bootstrap --with checks --with browser --with intel --with matrix \
	    --with operators --with packages --with deb
	$(MAKE) --no-print-directory build
	$(MAKE) -j2 --no-print-directory kernels emulator-beside
	PARATICK_SOAK_MINUTES=$(MINUTES) $(TESTS) --resume $(QUICK) boot $(MORE)

tests: build
	$(CARGO) test --release --locked --no-run --workspace
	@$(CRATES) keep

ready: build
	$(PARATICK) doctor

test-quick: build ## unit, property, CLI and browser tests: boots nothing (2 min)
	$(TESTS) $(QUICK)

test-boot: kernels emulator ## boots kernels under emulation (10 to 40 min, plus what it boots)
	$(TESTS) boot

test-intel: build ## under KVM-Intel, in an emulator of such a processor (3 min, plus the kernel)
	scripts/bootstrap --with intel
	$(PARATICK) kernel build
	$(TESTS) intel

test-debug: build emulator ## on a kernel that looks for mistakes (30 min, plus the kernel)
	$(TESTS) debug

MINUTES ?= 20
soak: kernel emulator ## timers under random loads, switches and hotplug (MINUTES=20)
	PARATICK_SOAK_MINUTES=$(MINUTES) $(TESTS) soak

check: lint check-house check-series ## lints, source layout, kernel series (12 min)

check-house: ## no module cycles, no crate that uses one above it (1 min)
	$(TESTS) house

check-series: build ## the kernel series: every patch, and the stack as kernel/matrix.toml says
	scripts/bootstrap --with matrix
	$(PARATICK) kernel check

fmt: ## format the Rust sources
	$(CARGO) fmt --all

# Compiling every patch by itself takes much longer: `make check-series` does it before an export.
check-quick: build
	$(PARATICK) kernel check --quick

lint: ## what .ci/run asks of the Rust sources
	$(CARGO) fmt --all --check
	$(CARGO) clippy --release --locked --workspace --all-targets -- -D warnings
	@$(CRATES) keep

clean: ## remove what cargo built; the cache stays (paratick doctor names it)
	$(CARGO) clean
	rm -rf bin
