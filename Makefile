# Every target installs what it lacks where it may (Debian or Ubuntu, as root or with sudo) and
# otherwise says what to do. `make help` lists the targets.

SHELL := /bin/bash
CARGO ?= cargo
# Cargo may have been installed a moment ago, by a shell that has not been restarted since.
export PATH := $(PATH):$(HOME)/.cargo/bin

.DEFAULT_GOAL := help
.PHONY: help setup lint-setup demo test test-python test-docs test-report lint instructions-renew instructions-record instructions bench bench-order bench-pager soak fuzz miri \
  perturb tsan test-as-nobody docs reference figures wheel package deny install

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup:
	@scripts/setup

lint-setup: setup
	@$(CARGO) fmt --version >/dev/null 2>&1 || \
	  { echo "cargo fmt is missing; run: rustup component add rustfmt (Debian: apt-get install rustfmt)" >&2; exit 1; }
	@$(CARGO) clippy --version >/dev/null 2>&1 || \
	  { echo "cargo clippy is missing; run: rustup component add clippy (Debian: apt-get install rust-clippy)" >&2; exit 1; }

demo: setup ## build, then an experiment before and after, the sample trace over the policies, and a report
	$(CARGO) build --release -p coldset
	# Exit code 1 is an answer here: a claim of the report is out of its band, and the table says so.
	target/release/coldset lab run mongodb --seeds 5 --report target/demo.html || [ $$? -eq 1 ]
	target/release/coldset lab replay data/sqlite.pageops.zst --memory 25%
	$(CARGO) run --release -p coldset-pager --example budget
	@scripts/show target/demo.html

# Property tests draw the same cases each time; PROPTEST_RNG_SEED=$RANDOM make test draws others, and make soak does.
PROPTEST_RNG_SEED ?= 1

test: export PROPTEST_RNG_SEED := $(PROPTEST_RNG_SEED)
# Recorded counts of instructions are those of such a build. It is also quicker from nothing: one unit for
# each crate instead of 16 takes a seventh less CPU time, and nothing is stored for incremental builds.
test instructions-renew: export CARGO_INCREMENTAL := 0
test instructions-renew: export CARGO_PROFILE_DEV_CODEGEN_UNITS := 1
test: setup ## all tests, comparison with the recorded kernel and with libCacheSim, the documentation's commands
	@scripts/setup --strace || true
	# The Python package is built while tests run, which leave a CPU idle now and then.
	@target=$${CARGO_TARGET_DIR:-target}; mkdir -p $$target; log=$$target/test-python.log; \
	  scripts/test-python --install-only >$$log 2>&1 & python=$$!; \
	  scripts/test-programs || { kill $$python 2>/dev/null; exit 1; }; \
	  wait $$python || { cat $$log; exit 1; }
	@scripts/setup --valgrind || true
	# Each of the three leaves a CPU idle now and then; the package's tests are the longest and begin first.
	@target=$${CARGO_TARGET_DIR:-target}; \
	  scripts/test-python --installed >$$target/test-python.log 2>&1 & python=$$!; \
	  { scripts/check-libcachesim && scripts/test-report; } >$$target/test-report.log 2>&1 & report=$$!; \
	  scripts/instructions --tests && $$target/debug/coldset lab fidelity && scripts/test-docs; rest=$$?; \
	  wait $$python; python=$$?; wait $$report; report=$$?; \
	  cat $$target/test-python.log $$target/test-report.log; exit $$((rest + python + report))

test-report: setup ## the pages of --report in headless Chromium (after `cargo test` has built the command)
	scripts/test-report

test-python: setup ## the Python package: pip install into a private venv, its tests, doctests, types
	scripts/test-python

test-docs: setup ## every command block of the documentation
	$(CARGO) test --workspace --no-run
	@scripts/test-python --install-only
	scripts/test-docs --verbose

lint: lint-setup ## rustfmt and clippy, warnings are errors
	$(CARGO) fmt --all --check
	scripts/cargo-workspace clippy --all-targets -- -D warnings

instructions-renew: setup ## the counts that `make test` compares with, after a change that is meant (needs valgrind)
	scripts/cargo-workspace rustc --bin coldset
	scripts/instructions --tests --record

instructions-record: setup ## count the instructions of short replays before a change (needs valgrind)
	$(CARGO) build --release -p coldset
	scripts/instructions --record

instructions: setup ## and after it: fails where they are 3 % more or less
	$(CARGO) build --release -p coldset
	scripts/instructions

bench: setup ## speed of replays and curves beside libCacheSim and quick_cache (BENCH=--quick: under a minute)
	$(CARGO) bench -p coldset --bench throughput -- $(BENCH)

bench-order: setup ## criterion benchmark of which memcg is reclaimed from next
	$(CARGO) bench -p coldset-engine --bench memcg_order

bench-pager: setup ## the pager beside the kernel's reclaim under a memory cgroup (needs root for the kernel's arm)
	@scripts/test-python --build-only
	$(CARGO) bench -p coldset-pager --bench kernel -- --python $(CURDIR)/target/venv/bin/python $(BENCH)

# Seconds of each stress test of `make soak`.
SECONDS ?= 600
KILLS ?= 200

soak: setup ## the pager's stress tests and models, each SECONDS long (SECONDS=3600 make soak), and 200 kills
	COLDSET_SOAK_SECONDS=$(SECONDS) COLDSET_KILLS=$(KILLS) $(CARGO) test -p coldset-pager \
	  --test pool --test model -- --nocapture --test-threads=1 stress::no_store_is_lost explicit::no_store_is_lost \
	  no_store_to_a_file two_pools_do_not_mix advice_to_the_kernel an_ordinary_user what_sync_has_acknowledged \
	  random_programs programs_that_failed
	$(CARGO) test -p coldset-pager --features plants --test model -- --nocapture planted
	COLDSET_SOAK_SECONDS=$(SECONDS) scripts/test-python -k arrays_hold
	COLDSET_SWARM_SEEDS=$$(( $(SECONDS) / 2 )) $(CARGO) test -p coldset-fuzz
	PROPTEST_CASES=4096 $(CARGO) test -p coldset-engine -p coldset-machine -p coldset-traces --lib

# Seeds of `make perturb`.
SEEDS ?= 20

perturb: setup ## the pager's tests with moments between two steps made long (SEEDS=300 make perturb)
	scripts/perturb $$(date +%s) $(SEEDS)

# Beside its own reports: a miss is a signal, in which the pager allocates, as its manual says.
# rustix by way of the C library: ThreadSanitizer does not see mappings that are made and unmapped without it, and takes
# what lies at an address now for what lay there before.
tsan: setup ## tests of the pager under ThreadSanitizer (nightly with rust-src; a quarter of an hour to build)
	@$(CARGO) +nightly --version >/dev/null 2>&1 || \
	  { echo "nightly is missing; run: rustup toolchain install nightly --component rust-src" >&2; exit 1; }
	CARGO_TARGET_DIR=target/tsan RUSTFLAGS='-Zsanitizer=thread --cfg rustix_use_libc' \
	  TSAN_OPTIONS='report_signal_unsafe=0 suppressions=$(CURDIR)/pager/tests/tsan.supp' COLDSET_SOAK_SECONDS=4 \
	  $(CARGO) +nightly test -Zbuild-std --target x86_64-unknown-linux-gnu -p coldset-pager --features plants --test pool -- \
	  --test-threads=1 --skip planted --skip injected stress::no_store_is_lost drops:: tiers:: loans:: journal:: \
	  sync_errors:: full_disk:: observe:: threads::no_store

fuzz: setup ## damaged traces and journals for SECONDS (SECONDS=3600 make fuzz): memory, panics, one line each
	COLDSET_FUZZ_SECONDS=$(SECONDS) COLDSET_FUZZ_SEED=$${COLDSET_FUZZ_SEED:-$$RANDOM$$RANDOM} \
	  $(CARGO) test -p coldset --test damaged -- --nocapture no_damage

miri: setup ## the pager's code that makes no system calls, under Miri (nightly)
	@$(CARGO) +nightly miri --version >/dev/null 2>&1 || \
	  { echo "Miri is missing; run: rustup toolchain install nightly --component miri,rust-src" >&2; exit 1; }
	CARGO_TARGET_DIR=target/miri MIRIFLAGS=-Zmiri-disable-isolation PROPTEST_CASES=4 \
	  $(CARGO) +nightly miri test -p coldset-pager --lib -- page::model store:: observe::histogram

test-as-nobody: setup ## all tests of the pager as an ordinary user (as root: as nobody)
	@scripts/test-as-nobody

docs: setup ## API documentation into target/doc and the site into target/site, warnings are errors
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps
	scripts/build-docs

reference: setup ## renew docs/reference from the tables of the code
	$(CARGO) run -p coldset -- reference --dir docs/reference

figures: setup ## renew docs/figures.md: minutes; PAGER=1 also the part that depends on this machine (QUICK=1: in 3 minutes)
	$(CARGO) build --release -p coldset
	scripts/figures $(if $(PAGER),--pager) $(if $(QUICK),--quick)

wheel: setup ## the Python package as a wheel for CPython 3.10 and later, tested in a fresh venv
	scripts/wheel

package: setup ## all crates as they would be published, in order, built and checked; nothing is uploaded
	$(CARGO) publish --workspace --dry-run --allow-dirty

deny: setup ## licences, bans, sources and advisories of the dependencies (installs cargo-deny)
	@scripts/deny

PREFIX ?= /usr/local

install: setup ## the command, manual pages, completions, C library and header into PREFIX
	$(CARGO) build --release -p coldset -p coldset-capi
	@PREFIX=$(PREFIX) DESTDIR=$(DESTDIR) scripts/install
