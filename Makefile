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

.DELETE_ON_ERROR:
.PHONY: help deps build kernels emulator demo test test-quick test-boot check check-house check-series fmt lint clean

help: ## this list (times: 2 cores, nothing cached)
	@awk -F':.*## ' '/^[a-z-]+:.*## /{ printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

deps: ## install the Debian packages that are missing (3 min, network)
	scripts/bootstrap

build: ## the command and its agent, linked as bin/paratick (3 min)
	$(CARGO) build --release --locked --workspace
	@mkdir -p bin && ln -sf $(abspath $(PARATICK)) bin/paratick

kernels: build ## the images of host and guest, with and without the series (12 min)
	$(PARATICK) kernel build
	$(PARATICK) kernel build --base

emulator: build ## QEMU from Debian's source, with the fix that nested guests need (4 min, network)
	$(PARATICK) emulator build

demo: deps build ## from a bare machine to the table of exits and a report (5 min when all is built, about 11 more when nothing is)
	$(PARATICK) doctor
	$(PARATICK) emulator build
	$(PARATICK) kernel build
	$(PARATICK) bench quick --report

test: test-quick test-boot ## every test (35 min)

test-quick: build ## unit, property, CLI and browser tests: boots nothing (2 min)
	$(CARGO) test --release --locked --no-fail-fast --workspace --lib --bins --test cli --test docs --test house --test browser

test-boot: kernels emulator ## boots kernels under emulation (15 min, and kernels and emulator)
	$(CARGO) test --release --locked --no-fail-fast -p paratick --test boot -- --test-threads=1

check: lint check-house check-series ## lints, the layout of the source, the kernel series (12 min)

check-house: ## no circle of modules, no crate that uses one above it (1 min)
	$(CARGO) test --release --locked -p paratick --test house

check-series: build ## the kernel series as one would send it: applies, checkpatch, compiles (10 min)
	$(PARATICK) kernel check

fmt: ## format the Rust sources
	$(CARGO) fmt --all

lint: ## what .ci/run asks of the Rust sources
	$(CARGO) fmt --all --check
	$(CARGO) clippy --release --locked --workspace --all-targets -- -D warnings

clean: ## remove what cargo built; the cache stays (paratick doctor names it)
	$(CARGO) clean
	rm -rf bin
