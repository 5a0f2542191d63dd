# The one place for commands. `make help` lists them.

CARGO ?= cargo
TOOLS := .cache/tools/bin
SEEDS ?= 100000
SIMULATION := $(CARGO) test --locked --quiet --profile sim -p longhaul-engine --features planted
LISTEN ?= 127.0.0.1:8080
RUN_ARGS ?= --listen $(LISTEN)

.PHONY: help run test check conformance e2e simulate bench build deploy fmt clean

help: ## This list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

run: ## Build and run the server with an embedded database (RUN_ARGS="--diagnostics …")
	$(CARGO) run --release --quiet --bin local -- $(RUN_ARGS)

test: ## Set up what the tests need, and pass all of them
	scripts/setup-tools.sh suite ts python
	scripts/nextest.sh --workspace
	$(CARGO) test --workspace --doc --quiet
	scripts/conformance.sh 2026-07-28
	$(MAKE) --no-print-directory simulate

check: ## Formatting, lints, docs, dependencies, fast tests
	scripts/setup-tools.sh deny
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked --quiet
	$(TOOLS)/cargo-deny --locked check bans licenses sources
	scripts/nextest.sh --workspace --exclude longhaul-tests

conformance: ## The public conformance suite against the conformance server
	scripts/setup-tools.sh suite
	scripts/conformance.sh 2026-07-28

e2e: ## Real clients, and kills, against the local server
	scripts/setup-tools.sh ts python
	scripts/nextest.sh -p longhaul-tests

simulate: ## 100,000 simulated worlds and every planted fault (SEEDS=n for more, SEED=n for one story)
ifdef SEED
	RUST_BACKTRACE=0 LONGHAUL_SIM_SEED=$(SEED) $(SIMULATION) --test simulation no_seed -- --nocapture
else
	LONGHAUL_SIM_SEEDS=$(SEEDS) $(SIMULATION) --test simulation --test planted -- --nocapture
endif

bench: ## Speed and memory, beside rmcp alone (BENCH_ARGS="--quick")
	$(CARGO) build --release --locked -p longhaul-app -p longhaul-bench --bin local --bin bench
	target/release/bench $(BENCH_ARGS)

clean: ## Remove everything that was built or installed
	$(CARGO) clean
	rm -rf .cache
