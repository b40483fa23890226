# What there is to do here. `make help` lists it; `make test` is what has to pass before a change goes in.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

PARTS := $(or $(FRESHET_PARTS),$(HOME)/.cache/freshet/parts)
DENY := $(PARTS)/cargo-deny-0.20.2/cargo-deny
# Seconds for each fuzz target.
FUZZ_S := 60

.PHONY: help
help: ## List the targets
	@grep -hE '^[a-z][a-z-]*:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "  make %-14s %s\n", $$1, $$2 }'

.PHONY: demo
demo: ## Run a gateway with sample data, an embedded store and a console; nothing to install but Rust
	cargo run --release --package freshet-gateway --bin freshet -- dev

.PHONY: test
test: ## Everything: install the parts, lint, Rust, TypeScript, browser and Varnish tests (about 20 minutes at first)
	infra/install
	$(MAKE) lint
	$(MAKE) test-rust
	$(MAKE) test-ts
	$(MAKE) test-browser
	$(MAKE) test-vcl
	@echo 'make test: everything passed'

.PHONY: install
install: ## Get the real parts that the tests need: MongoDB, Redis, Varnish, Chromium, cargo-deny
	infra/install

.PHONY: format
format: ## Format the Rust and the TypeScript code
	cargo fmt --all
	cd sdk-ts && npx biome check --write . && npx biome check --config-path=. --write ../infra/fixture-ts

.PHONY: lint
lint: ## Formatting, clippy, documentation, licences and sources of dependencies; warnings are errors
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps --locked --quiet
	infra/install deny
	$(DENY) --log-level error --locked check --hide-inclusion-graph bans licenses sources
	infra/install sdk
	cd sdk-ts && npm run check --silent && npx biome ci --config-path=. ../infra/fixture-ts

.PHONY: test-rust
test-rust: ## The tests of the Rust crates, against real parts
	cargo test --workspace --locked

.PHONY: test-ts
test-ts: ## The tests of the SDK in Node
	infra/install sdk
	cd sdk-ts && npm test --silent && npm run size --silent && npm run test:built --silent

.PHONY: test-browser
test-browser: ## The tests of the SDK in Chromium, against a gateway
	cargo build --locked --workspace --bins
	infra/install sdk
	cd sdk-ts && npm run test:browser --silent

.PHONY: test-vcl
test-vcl: ## The tests of the Varnish policy
	infra/varnish/test

.PHONY: fuzz-smoke
fuzz-smoke: ## Each fuzz target for FUZZ_S seconds; needs nightly Rust and cargo-fuzz
	@cargo +nightly fuzz --version >/dev/null 2>&1 || { \
		echo 'fuzzing needs: rustup toolchain install nightly && cargo install cargo-fuzz --locked' >&2; exit 1; }
	@cd core && for target in $$(cargo +nightly fuzz list); do \
		echo "== $$target"; \
		cargo +nightly fuzz run "$$target" -- -max_total_time=$(FUZZ_S) -verbosity=0 -print_final_stats=1; \
	done

.PHONY: bench
bench: ## The measurements; `make bench ARGS='--help'` lists the suites
	cargo run --release --locked --package freshet-bench -- $(ARGS)
