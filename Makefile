# All commands of the project. `make help` lists them.

CARGO ?= cargo
TOOLS := .cache/tools/bin
TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
SEEDS ?= 100000
SECONDS ?= 60
# Where bench-peers writes its report.
PEERS_OUT ?= docs/benchmarks
SIMULATION := $(CARGO) test --locked --quiet --profile sim -p longhaul-engine
# The parts of `make nightly`.
PARTS ?= sizes worlds scale chaos programs published packages fuzz mutants
LISTEN ?= 127.0.0.1:8080
RUN_ARGS ?= --listen $(LISTEN)

# Lints, docs and tests of everything, the Lambda functions too. All use the same packages and features, so that what one
# of them has built is not built again by the next.
FEATURES := longhaul/testing,longhaul-app/lambda,longhaul-cli/aws,longhaul-cli/otel,longhaul-conformance/lambda,longhaul-gateway/lambda
WORKSPACE := --workspace --features $(FEATURES)
# What is published, in one release. The rest of the workspace has `publish = false`.
PUBLIC := app core engine sqlite http mcp aws lambda testkit client console gateway cli
PACKAGES := $(PUBLIC:%=-p longhaul-%) -p longhaul
# The tests of `make test-all` that `make test` leaves out: they need other programs, or minutes.
OTHERS := package(longhaul-aws) & kind(test) | binary(aws) | binary(starter) | binary(instructions) | test(external::) | test(real::)
# So many of them at a time: they mostly wait, for leases, for schedules and for each other.
END_TO_END_THREADS ?= 4

.PHONY: help run check test test-all whole-programs nightly nightly-report $(PARTS:%=nightly-%) lint docs advisories features programs conformance conformance-local e2e local-aws \
	simulate scale chaos fuzz mutants sizes bench bench-peers pictures build build-gateway package dist deploy deploy-gateway prove-aws clean
# The order of the prerequisites matters: what is quick and fails often comes first.
.NOTPARALLEL:

help: ## This list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

run: ## Build the program `longhaul`, and start its demo (RUN_ARGS="--diagnostics …")
	$(CARGO) run --locked --bin longhaul -- demo $(RUN_ARGS)

# A change lands when `make check test test-all` passes in a clean clone.

check: lint features ## Formatting, lints, docs, dependencies, templates, workflow, feature sets

test: ## All tests that need a Rust toolchain, a C compiler and make only
	scripts/test.sh $(WORKSPACE)

test-all: test ## All tests, including real clients, a browser, an AWS emulator, conformance, 100,000 simulated worlds
	scripts/setup-tools.sh suite ts ts-legacy mcp-remote webhooks auth-server python python-legacy upstreams browser schemas aws aws-lint cargo-lambda containers
	rm -f $(TARGET_DIR)/second-tries.txt
	scripts/beside.sh $(TARGET_DIR)/simulate.txt '$(MAKE) --no-print-directory simulate' -- \
	    $(MAKE) --no-print-directory whole-programs
	@if [ -s $(TARGET_DIR)/second-tries.txt ]; then echo "These tests needed a second try:"; cat $(TARGET_DIR)/second-tries.txt; \
	    else echo "No test needed a second try."; fi

# While these wait, `make simulate` uses the processors.
whole-programs:
	scripts/nextest.sh $(WORKSPACE) --test-threads $(END_TO_END_THREADS) -E '$(OTHERS)'
	CONFORMANCE_SERVER=$(TARGET_DIR)/debug/conformance-server CONFORMANCE_GATEWAY=$(TARGET_DIR)/debug/longhaul $(MAKE) --no-print-directory conformance-local

nightly: ## The parts that take longer than landing a change may take (PARTS="chaos fuzz": only these)
	scripts/nightly.py $(PARTS)

nightly-report: ## When each part of `make nightly` passed last, and on which commit
	@scripts/nightly.py --report $(PARTS)

nightly-sizes: sizes

nightly-worlds:
	$(MAKE) --no-print-directory simulate SEEDS=1000000

nightly-scale: scale

nightly-chaos:
	$(MAKE) --no-print-directory chaos CHAOS_ARGS="--seconds 600"
	set -e; for lie in forgets-keys loses-results ignores-stops; do target/release/chaos --form local --lie $$lie; done

# A thousand calls of one tool, the commands for Lambda, images for containers, the proof of a deployment.
nightly-programs: programs
	scripts/setup-tools.sh ts python aws aws-lint cargo-lambda containers
	@scripts/sam-local.sh run-with true || { echo "nightly-programs: not run: no Docker daemon can be started here"; exit 1; }
	scripts/nextest.sh $(WORKSPACE) --run-ignored only --test local --test aws \
	    -E 'test(e2e::children::) | test(sam_local::) | test(cargo_lambda::) | test(images::) | test(prove::)'

# Servers of others, from crates.io: made durable as the documentation says, and killed.
nightly-published: programs
	scripts/published_servers.py $(TARGET_DIR)/debug/longhaul

nightly-packages:
	$(MAKE) --no-print-directory docs dist
	scripts/try_dist.py $(TARGET_DIR)/dist

nightly-fuzz:
	$(MAKE) --no-print-directory fuzz SECONDS=60

nightly-mutants: mutants

lint: ## Formatting, lints, docs, dependencies, templates, Dockerfile, workflow
	scripts/setup-tools.sh deny aws-lint actionlint hadolint
	$(CARGO) fmt --all --check
	scripts/count_lines.py --check
	scripts/check_columns.py
	scripts/check_words.py
	scripts/docs.py check
	$(CARGO) clippy $(WORKSPACE) --all-targets --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc $(WORKSPACE) --no-deps --locked --quiet
	$(TOOLS)/cargo-deny --locked check bans licenses sources
	$(TOOLS)/cfn-lint template.yaml infra/container/resources.yaml infra/cargo-lambda.yaml infra/budget.yaml infra/nested/template.yaml
	$(TOOLS)/sam validate --lint --template template.yaml --region us-east-1
	$(TOOLS)/hadolint infra/container/Dockerfile infra/container/gateway-worker.Dockerfile
	$(TOOLS)/actionlint '.github/workflows/*.yml'
	$(TOOLS)/actionlint 'templates/server/.github/workflows/*.yml'

advisories: ## Known vulnerabilities of the locked dependencies (needs a network: it fetches the RustSec database)
	scripts/setup-tools.sh deny
	$(TOOLS)/cargo-deny --locked check advisories

features: ## Compile each feature set, with the oldest Rust that is supported
	scripts/check_features.py

# With the tests: otherwise other features of dependencies would be chosen, and both would build their own.
programs: ## All programs, for the tests that start them
	$(CARGO) build --locked $(WORKSPACE) --bins --tests

conformance: programs conformance-local ## The public conformance suite for every revision that it knows: locally, through the gateway, and against the template
	scripts/setup-tools.sh suite aws
	scripts/nextest.sh $(WORKSPACE) --test aws -E 'test(aws_e2e::conformance::)'

conformance-local: ## The same without the template
	scripts/setup-tools.sh suite
	scripts/conformance.sh 2026-07-28
	scripts/conformance.sh 2025-11-25
	scripts/conformance.sh 2025-06-18
	scripts/conformance.sh 2026-07-28 gateway
	scripts/conformance.sh 2025-11-25 gateway
	scripts/conformance.sh 2025-06-18 gateway

e2e: programs ## The tests of whole programs: with real clients, a browser, an AWS emulator, and a new server
	scripts/setup-tools.sh ts ts-legacy mcp-remote webhooks auth-server python python-legacy upstreams browser aws aws-lint cargo-lambda containers
	scripts/nextest.sh $(WORKSPACE) --test-threads $(END_TO_END_THREADS) --test local --test aws --test starter \
	    -E 'package(longhaul-tests) - test(aws_e2e::conformance::)'

local-aws: ## The whole deployment on an AWS emulator on this machine, until it is stopped
	scripts/setup-tools.sh aws
	scripts/local-aws.sh

build: ## Both Lambda functions as zips (ARCH=arm64 or x86_64; this machine's by default)
	scripts/build-lambda.sh

build-gateway: ## The gateway as Lambda functions (BUNDLE=FOLDER with mcp.json, mcp.lock.json and servers), and its worker as a layer
	PACKAGE=longhaul-gateway API=gateway-api WORKER=gateway-worker LAYER=worker BUNDLE="$(BUNDLE)" scripts/build-lambda.sh

# All of them share what they build, which would otherwise be built for each.
package: ## Package the crates that are published, and build each from its package (PACKAGE_ARGS=--allow-dirty)
	CARGO_BUILD_BUILD_DIR=$(abspath $(TARGET_DIR))/package/build CARGO_PROFILE_DEV_DEBUG=0 \
	    $(CARGO) package $(PACKAGES) --locked $(PACKAGE_ARGS)

# TARGET needs a linker of its own for another processor than this machine's.
dist: ## The program for a release: archive, npm packages, wheel, formula, licences (TARGET=aarch64-apple-darwin)
	$(CARGO) build --release --locked -p longhaul-cli --features aws,otel --bin longhaul $(addprefix --target ,$(TARGET))
	scripts/dist.py $(TARGET_DIR)/$(addsuffix /,$(TARGET))release/longhaul $(TARGET_DIR)/dist $(TARGET)

deploy: build ## Build, and deploy template.yaml with the SAM CLI (DEPLOY_ARGS="--guided" PARAMETERS="AuthMode=anonymous" SETTINGS="lease-ms=30000" TAGS="team=etl")
	PARAMETERS="$(PARAMETERS)" SETTINGS='$(SETTINGS)' AUTHENTICATION='$(AUTHENTICATION)' TAGS="$(TAGS)" scripts/deploy.sh $(DEPLOY_ARGS)

deploy-gateway: build-gateway ## Build the gateway, and deploy it with template.yaml (as deploy; PARAMETERS="WorkerRuntime=nodejs24.x", GATEWAY_CONFIG=FILE)
	PARAMETERS="$(PARAMETERS)" SETTINGS='$(SETTINGS)' AUTHENTICATION='$(AUTHENTICATION)' TAGS="$(TAGS)" GATEWAY_CONFIG="$(GATEWAY_CONFIG)" scripts/deploy.sh $(DEPLOY_ARGS)

# Anything that goes wrong on the way leaves nothing behind, or says what.
prove-aws: build ## Prove a deployment in your AWS account, for less than a dollar: it asks first, and writes docs/aws-report.md (PROVE_ARGS=--yes)
	scripts/setup-tools.sh aws ts python
	$(CARGO) build --release --locked -p longhaul-cli --features aws --bin longhaul
	.cache/tools/aws/bin/python -B scripts/prove_aws.py $(PROVE_ARGS)

simulate: ## 100,000 simulated worlds and every planted fault (SEEDS=n for more, SEED=n for one story)
ifdef SEED
	RUST_BACKTRACE=0 LONGHAUL_SIM_SEED=$(SEED) $(SIMULATION) --test simulation no_seed -- --nocapture
else
	LONGHAUL_SIM_SEEDS=$(SEEDS) $(SIMULATION) --test simulation -- --nocapture
endif

chaos: ## Kill, freeze and cut real servers under load, and check what was promised (CHAOS_ARGS="--seed 7 --seconds 600")
	scripts/setup-tools.sh aws
	$(CARGO) build --release --locked -p longhaul-chaos -p longhaul-cli --bin chaos --bin chaos-server --bin chaos-api \
	    --bin chaos-worker --bin longhaul
	target/release/chaos $(CHAOS_ARGS)

fuzz: ## Look for inputs that break a promise, SECONDS for each target (TARGETS="requests headers" for some)
	scripts/fuzz.sh $(SECONDS) $(TARGETS)

mutants: ## Change the code in one place at a time, and expect a failing test: takes hours (MUTANTS_SHARD=k/n, CRATES="core sqlite")
	scripts/setup-tools.sh mutants aws
	scripts/mutants.sh $(CRATES)

scale: ## Simulated load, for one owner and for many: the table of docs/scale.md
	$(CARGO) run --locked --quiet --profile sim -p longhaul-sim --example load

sizes: ## Build the Lambda functions for this machine, and fail if one is larger than it may be
	$(CARGO) build --profile function --locked -p longhaul-app --no-default-features --features lambda --bin api --bin worker
	scripts/check_sizes.py $(TARGET_DIR)/function/api $(TARGET_DIR)/function/worker

bench: ## Speed, size and memory, compared with rmcp alone and a bare function (BENCH_ARGS="--quick --only lambda")
	scripts/setup-tools.sh aws python mcp-proxy
	$(CARGO) build --release --locked -p longhaul-cli -p longhaul-bench --bin longhaul --bin bench
	$(CARGO) build --profile function --locked -p longhaul-app -p longhaul-bench-bare --no-default-features \
	    --features longhaul-app/lambda --bin api --bin worker --bin bare
	scripts/emulator.sh run-with target/release/bench $(BENCH_ARGS)

bench-peers: ## Longhaul next to Restate, DBOS, FastMCP, rmcp, pmcp and turul, in one run: docs/benchmarks (PEERS_ARGS="--quick")
	scripts/setup-tools.sh aws peers
	$(CARGO) build --release --locked -p longhaul-bench --bin bench
	cd crates/bench/peers && python3 -B -m unittest --quiet
	scripts/emulator.sh run-with python3 -B crates/bench/peers/compare.py --bench target/release/bench --tools .cache/tools \
	    --out $(PEERS_OUT) $(PEERS_ARGS)

docs: ## The documentation as a site with search, in target/book, with llms.txt
	scripts/setup-tools.sh mdbook
	scripts/docs.py build $(TARGET_DIR)/book

pictures: ## The pictures in the docs: pages of the console, and the command in a terminal
	scripts/setup-tools.sh browser
	$(CARGO) build --locked $(WORKSPACE) --bin longhaul
	scripts/pictures.sh

clean: ## Remove everything that was built or installed
	$(CARGO) clean
	rm -rf .cache
