# Every target installs or builds what it needs; `make help` lists them.
SHELL := /bin/sh
.DEFAULT_GOAL := help

E2E := target/debug/e2e
# The cluster that the demo uses: its own (`local`), or the one that kubectl points to (`current`).
CLUSTER ?= local
# More arguments of the benchmark: `make bench BENCH=--large`, or `BENCH=--help` to see all.
BENCH ?=
# One test program (`make test T=chart`), or only the tests whose name contains this (`make test T=orphan`).
T ?=
# Where `make install` puts the operator's binary and kubectl's plugin.
PREFIX ?= $(HOME)/.local
# The folder of this file, for whoever calls it from another one.
HERE := $(dir $(lastword $(MAKEFILE_LIST)))
# When this make began; and after a command: where it fails, the target ends, and prints how long it took all the same.
BEGAN := $(shell date +%s)
OR_TOOK = || { outcome=$$?; $(HERE)scripts/took $@ $(BEGAN); exit $$outcome; }

.PHONY: help
help: ## List the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

.PHONY: prerequisites
prerequisites:
	@scripts/prerequisites

.PHONY: test-prerequisites
test-prerequisites:
	@scripts/prerequisites tests

.PHONY: build
build: prerequisites ## Build the operator and the tools of the tests (debug)
	@cargo build --workspace --bins --locked
	@ln -sf memcached-operator target/debug/kubectl-mcd
	@ln -sf memcached-operator target/debug/kubectl_complete-mcd

.PHONY: install
install: prerequisites ## Build a release, and install it and kubectl's plugin `mcd` into PREFIX/bin (~/.local/bin)
	@cargo build --release --locked --package=memcached-operator
	@mkdir -p $(PREFIX)/bin
	@cp target/release/memcached-operator $(PREFIX)/bin/memcached-operator
	@ln -sf memcached-operator $(PREFIX)/bin/kubectl-mcd
	@ln -sf memcached-operator $(PREFIX)/bin/kubectl_complete-mcd
	@echo "installed memcached-operator, kubectl-mcd and kubectl_complete-mcd into $(PREFIX)/bin"

.PHONY: demo
demo: build ## Run the operator and a cache on a local Kubernetes (CLUSTER=current: on kubectl's cluster)
	@$(E2E) demo --cluster $(CLUSTER)

.PHONY: demo-down
demo-down: build ## Remove what `make demo` made
	@$(E2E) demo --cluster $(CLUSTER) --remove

.PHONY: check
check: test-prerequisites ## Quick loop: format, clippy without tests, pure tests
	@cargo fmt --all --check $(OR_TOOK)
	@$(MAKE) --file=$(firstword $(MAKEFILE_LIST)) --no-print-directory --jobs=2 --output-sync=target \
		clippy pure-tests $(OR_TOOK)
	@$(HERE)scripts/took $@ $(BEGAN)

# In a folder of its own, because two cargos at once wait for each other in one. `make test` lints the tests and e2e too, before it
# builds, and in the folder of the build: macros and build scripts of the dependencies are then compiled once.
.PHONY: clippy
clippy:
	@cargo clippy --workspace --exclude e2e --locked --target-dir target/clippy -- -D warnings

.PHONY: pure-tests
pure-tests:
	@$(HERE)scripts/pure-tests

# The suite prints the time itself: no shell stands between it and who interrupts it.
.PHONY: test
test: export MAKE_TEST_BEGAN := $(BEGAN)
test: test-prerequisites ## All tests, those on a real Kubernetes included (T=name: one program, or tests of that name)
	@cargo fmt --all --check $(OR_TOOK)
	@cargo clippy --workspace --all-targets --locked -- -D warnings $(OR_TOOK)
	@cargo build --workspace --locked --bin memcached-operator --features memcached-operator/next-revision $(OR_TOOK)
	@cp target/debug/memcached-operator target/debug/memcached-operator-next
	@cargo build --workspace --bins --locked $(OR_TOOK)
	@cargo test --workspace --locked --no-run $(OR_TOOK)
	@$(HERE)scripts/memcacheds $(OR_TOOK)
	@$(HERE)scripts/suite $(T)

# The variable goes before the number that a property asks for, so that those which try fewer in `make test` try as many as the others.
# A property that finds something does not stop the others.
.PHONY: search
search: ## Look for a history or a resource that breaks a property: 20,000 cases of each, others each time (an hour)
	@PROPTEST_CASES=20000 cargo test --release -p memcached-operator-core --locked \
		--test simulation --test properties --no-fail-fast

.PHONY: mutants
mutants: test-prerequisites ## Put old defects back, one at a time, and see that their tests find them
	@scripts/mutants

.PHONY: bench
bench: prerequisites ## Compare the operator with a bare client on a bare API server
	@cargo build --release --locked -p memcached-operator -p e2e
	@target/release/e2e bench $(BENCH)

.PHONY: generate
generate: build ## Write the generated files anew
	@target/debug/memcached-operator crd > manifests/crd.yaml.new && mv manifests/crd.yaml.new manifests/crd.yaml
	@cp manifests/crd.yaml charts/memcached-operator/files/crd.yaml
	@$(E2E) install-manifest > manifests/install.yaml.new && mv manifests/install.yaml.new manifests/install.yaml

.PHONY: image
image: build ## Build the operator's image into target/image without a container engine, and list what is in it
	@$(E2E) pack-image

.PHONY: deny
deny: ## Check licences and advisories of the dependencies (needs cargo-deny)
	@cargo deny --locked check

.PHONY: clean
clean: ## Remove build output (the programs of the local Kubernetes stay in the user's cache)
	@cargo clean
