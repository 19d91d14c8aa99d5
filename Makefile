# Every target sets itself up first; a set-up that is current takes no time. `make help` lists them.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
UV := $(shell command -v uv 2>/dev/null)
PYTEST_ARGS ?=

# Tests start Python hundreds of times: what it has compiled is kept, whatever the environment says.
unexport PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX := $(CURDIR)/$(VENV)/pycache

.PHONY: help setup rehearse test test-real test-heavy test-lives check fix bench wheel docs docs-serve lock clean

help: ## Show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## */\1\t/' | awk -F'\t' '{ printf "  %-12s %s\n", $$1, $$2 }'

setup: $(READY) ## Make .venv with the locked versions

# uv, of this machine or of the lock, installs in half the time that pip takes. Where it cannot reach an index that pip is told of,
# pip does it.
$(READY): requirements/dev.txt requirements/setup.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Sliceworks needs Python 3.11 or newer: make PYTHON=python3.12 $(MAKECMDGOALS)")'
	@[ -x $(BIN)/python ] || $(PYTHON) -m venv $(VENV)
ifeq ($(UV),)
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(BIN)/python -m ensurepip >/dev/null
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --require-hashes -r requirements/setup.txt
endif
	@$(or $(UV),$(BIN)/uv) pip install --quiet --python $(BIN)/python --require-hashes -r requirements/dev.txt \
	  || $(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	@$(or $(UV),$(BIN)/uv) pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	@touch $@

rehearse: $(READY) ## Rehearse the example platform: a whole day on the twin, from terraform apply to destroy
	@$(BIN)/sliceworks rehearse examples/platform

# Files go to workers one by one, the long ones first.
SPREAD := --dist loadfile --no-loadscope-reorder

# Tests of running programs mostly wait for them: twice as many at a time as there are cores keep those busy.
WORKERS = $$(( 2 * $$(getconf _NPROCESSORS_ONLN) ))

# Go's programs collect garbage this much later: they take a fifth less time, and more memory.
GOGC ?= 400

# All workers read all tests at the same time: where nothing is compiled yet, each would compile everything for itself.
$(VENV)/.compiled: $(READY)
	@$(BIN)/pytest -q --collect-only >/dev/null || true
	@touch $@

test: $(VENV)/.compiled ## Run all tests that need nothing but Python
	@$(BIN)/pytest -q -m "not real" -n $(WORKERS) $(SPREAD) $(PYTEST_ARGS)

test-real: $(READY) ## Run the contract on real programs too, and the console in Chromium (needs Go and Chromium; builds are cached)
	@$(BIN)/python -m tests.real.ready
	@SLICEWORKS_REAL=1 GOGC=$(GOGC) $(BIN)/pytest -q -m real -n $(WORKERS) $(SPREAD) $(PYTEST_ARGS)

test-heavy: $(READY) ## Try what takes long to build or to install: images, Istio with Envoy, vLLM on CPUs (needs Go, and root for Debian's packages)
	@SLICEWORKS_HEAVY=1 SLICEWORKS_REAL=1 GOGC=$(GOGC) $(BIN)/pytest -q tests/heavy $(PYTEST_ARGS)

test-lives: $(READY) ## Live 500 random lives of the slices controller: faults of the cloud, kills, JobSets that come and go
	@SLICEWORKS_SEEDS=500 $(BIN)/pytest -q -n auto --dist load tests/controllers/slices/test_random_lives.py $(PYTEST_ARGS)

check: $(READY) ## Lint, formatting, types, layers
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo

fix: $(READY) ## Repair what `check` can repair, and bring generated pages up to date
	@$(BIN)/ruff check --fix
	@$(BIN)/ruff format
	@$(BIN)/python docs/generate.py

bench: $(READY) ## Measure beside the real thing and print ratios
	@for file in bench/[a-z]*.py; do $(BIN)/python $$file; done

wheel: $(READY) ## Build the wheel into dist/, with its SHA-256 beside it
	@rm -rf dist && $(BIN)/python -m hatchling build -t wheel -d dist >/dev/null
	@cd dist && { sha256sum *.whl 2>/dev/null || shasum -a 256 *.whl; } | tee SHA256SUMS

docs: $(READY) ## Build the documentation into site/
	@$(BIN)/python docs/generate.py --check
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "open site/index.html"

docs-serve: $(READY) ## Show the documentation while it is written
	@$(BIN)/mkdocs serve

# The lock names versions and hashes, and no place to fetch them from: each machine uses its own index.
COMPILE = uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate --custom-compile-command "make lock"

lock: ## Resolve the newest allowed versions into requirements/, and those of our images into deploy/requirements/ (needs uv)
	@for name in dev runtime; do \
	  group=$$([ $$name = dev ] && echo "--group dev" || echo "--constraints requirements/dev.txt"); \
	  $(COMPILE) --upgrade $$group pyproject.toml --output-file requirements/$$name.txt; \
	done
	@echo uv | $(COMPILE) --upgrade --output-file requirements/setup.txt -
	@echo hatchling | $(COMPILE) --constraints requirements/dev.txt --output-file deploy/requirements/build.txt -
	@for image in "controllers --extra=google" "gateway --extra=google --extra=grpc --extra=tracing" "load-worker --extra=google --extra=load"; do \
	  set -- $$image; \
	  $(COMPILE) --constraints requirements/dev.txt $${@:2} --output-file deploy/requirements/$$1.txt pyproject.toml; \
	done
	@$(subst --universal --python-version 3.11,--python-version 3.10 --python-platform x86_64-manylinux_2_28,$(COMPILE)) --upgrade \
	  --output-file deploy/requirements/converter.txt deploy/requirements/converter.in

clean: ## Remove what was made here, .venv included
	@rm -rf $(VENV) site build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
