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
# What fails is run once more, by itself.
TESTS = scripts/tests $(CARGO_TEST)
# Without the tests that boot.
QUICK = --workspace --lib --bins --test cli --test docs --test house --test browser

# Prints the step and how long it may take.  The output of apt and cargo goes to a log.
STEP = @scripts/step
QUIET = $(STEP) --log $(CARGO_TARGET_DIR)/steps/

.DELETE_ON_ERROR:
.PHONY: help deps build tests ready kernel kernels emulator emulator-beside demo \
	test test-quick test-boot \
	test-intel test-debug soak check check-house check-series fmt lint clean

help: ## this list (times are for 2 cores and an empty cache)
	@awk -F':.*## ' '/^[a-z-]+:.*## /{ printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

deps: ## install the Debian packages that are missing (1 min, network)
	scripts/bootstrap

build: ## the command and its agent, linked as bin/paratick (2 min)
	$(CARGO) build --release --locked --workspace
	@mkdir -p bin && ln -sf $(abspath $(PARATICK)) bin/paratick

kernel:
	$(PARATICK) kernel build

# Fills the pauses of a kernel's build.  Its output would get between that one's.
emulator-beside:
	@mkdir -p $(CARGO_TARGET_DIR)/steps
	@$(PARATICK) emulator build >$(CARGO_TARGET_DIR)/steps/emulator.log 2>&1 || { \
	    code=$$?; tail -n 20 $(CARGO_TARGET_DIR)/steps/emulator.log >&2; exit $$code; }

kernels: build ## the images: with the series at 250 and 1000 Hz, and without (18 min)
	$(PARATICK) kernel build
	$(PARATICK) kernel build --base
	$(PARATICK) kernel build --hz 1000

emulator: build ## QEMU from Debian's source, fixed for nested guests (2 min, network)
	$(PARATICK) emulator build

demo: ## from a bare machine to a table of exits and a report (19 min; 5 when all is built)
	@echo 'The demo: 4 steps, about 19 min on 2 idle cores, 5 when all is built.' >&2
	$(QUIET)packages.log 1/4 'install the Debian packages that are missing' 'about 1 min' \
	    scripts/bootstrap
	$(QUIET)build.log 2/4 'compile paratick and check this machine' 'about 2 min' \
	    $(MAKE) --no-print-directory build ready
	$(STEP) 3/4 'build the kernel, and beside it the emulator' 'about 11 min' \
	    $(MAKE) -j2 --no-print-directory kernel emulator-beside
	$(STEP) 4/4 'boot and measure, in 7 modes' 'about 6 min; resumes after an interruption' \
	    $(PARATICK) bench quick --report --output $(CARGO_TARGET_DIR)/demo.json

test: ## every test (37 to 70 min so far, by how fast the machine is)
	@echo 'All tests: 5 steps; they have taken 37 to 70 min on 2 cores.' >&2
	$(QUIET)packages.log 1/5 'install the Debian packages that are missing' 'about 1 min' \
	    scripts/bootstrap
	$(QUIET)tests.log 2/5 'compile paratick and its tests' 'about 4 min' \
	    $(MAKE) --no-print-directory build tests
	$(STEP) 3/5 'tests that boot nothing' 'about 2 min' $(MAKE) --no-print-directory test-quick
	$(STEP) 4/5 'build the kernels, and beside them the emulator' 'about 18 min' \
	    $(MAKE) -j2 --no-print-directory kernels emulator-beside
	$(STEP) 5/5 'tests that boot' '22 to 52 min' $(MAKE) --no-print-directory test-boot

tests: build
	$(CARGO_TEST) --no-run $(QUICK)
	$(CARGO_TEST) --no-run -p paratick --test boot

ready: build
	$(PARATICK) doctor

test-quick: build ## unit, property, CLI and browser tests: boots nothing (2 min)
	$(TESTS) $(QUICK)

test-boot: kernels emulator ## boots kernels under emulation (17 min, plus kernels and emulator)
	RUST_TEST_THREADS=2 $(TESTS) -p paratick --test boot

test-intel: build ## under KVM-Intel, in an emulator of such a processor (3 min, plus the kernel)
	scripts/bootstrap --with intel
	$(PARATICK) kernel build
	$(CARGO_TEST) -p paratick --test intel -- --test-threads=1 --nocapture

# Tests of what the series promise, not of the lab.  One selftest holds ticks to 10 % of what its
# guest computes, while such a kernel takes a third of that time for its exits.
DEBUG_TESTS = transitions:: halt_until:: vmm:: cputime:: kexec:: selftest::

test-debug: build emulator ## on a kernel that looks for mistakes (30 min, plus the kernel)
	@mkdir -p $(CARGO_TARGET_DIR)/steps
	$(PARATICK) kernel build --debug >$(CARGO_TARGET_DIR)/steps/debug-kernel
	PARATICK_TEST_KERNEL=$$(sed -n 's/^image *//p' $(CARGO_TARGET_DIR)/steps/debug-kernel) \
	    PARATICK_TEST_SLOW=4 $(CARGO_TEST) -p paratick --test boot -- \
	    --test-threads=1 --nocapture --skip selftest::a_guest_gets $(DEBUG_TESTS)

MINUTES ?= 20
soak: kernel emulator ## timers under random loads, switches and hotplug (MINUTES=20)
	PARATICK_SOAK_MINUTES=$(MINUTES) \
	    $(CARGO_TEST) -p paratick --test boot -- --test-threads=1 --nocapture --ignored soak::

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
