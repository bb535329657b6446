# Every target installs what it lacks where it may (Debian or Ubuntu, as root or with sudo) and
# otherwise says what to do. `make help` lists the targets.

SHELL := /bin/bash
CARGO ?= cargo
# Cargo may have been installed a moment ago, by a shell that has not been restarted since.
export PATH := $(PATH):$(HOME)/.cargo/bin

.DEFAULT_GOAL := help
.PHONY: help setup lint-setup demo test test-python lint bench docs

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup:
	@scripts/setup

lint-setup: setup
	@$(CARGO) fmt --version >/dev/null 2>&1 || \
	  { echo "cargo fmt is missing; run: rustup component add rustfmt (Debian: apt-get install rustfmt)" >&2; exit 1; }
	@$(CARGO) clippy --version >/dev/null 2>&1 || \
	  { echo "cargo clippy is missing; run: rustup component add clippy (Debian: apt-get install rust-clippy)" >&2; exit 1; }

demo: setup ## build, then the MongoDB experiment and the sample trace over the policies
	$(CARGO) build --release -p coldset
	# Exit code 1 is an answer here: a claim of the report is out of its band, and the table says so.
	target/release/coldset lab run mongodb --seeds 5 || [ $$? -eq 1 ]
	target/release/coldset lab replay data/sqlite.pageops.zst --memory 25%

test: lint ## formatting, lints, all tests, comparison with the recorded kernel
	$(CARGO) test --workspace
	$(CARGO) build --release -p coldset
	target/release/coldset lab fidelity
	scripts/test-python

test-python: setup ## the Python package: pip install into a private venv, its tests, doctests, types
	scripts/test-python

lint: lint-setup ## rustfmt and clippy, warnings are errors
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings

bench: setup ## criterion benchmarks, replay throughput, and libCacheSim on the same stream
	$(CARGO) bench -p coldset-engine --bench memcg_order
	$(CARGO) bench -p coldset-lab --bench replay
	$(CARGO) build --release -p coldset-lab --example replay_bench
	scripts/bench-libcachesim

docs: setup ## API documentation into target/doc, warnings are errors
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps
