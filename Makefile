# Every target runs the setup first; it takes no time if it is current. `make help` lists all targets.
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

# Tests start Python hundreds of times: always keep compiled bytecode.
unexport PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX := $(CURDIR)/$(VENV)/pycache

.PHONY: help setup rehearse test test-real test-mixed test-versions conformance test-heavy test-lives gke check fix bench bench-check wheel sdist sbom manifests version changelog release release-check push-images push-chart docs docs-serve docs-site lock clean

help: ## Show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## */\1\t/' | awk -F'\t' '{ printf "  %-12s %s\n", $$1, $$2 }'

setup: $(READY) ## Create .venv with the locked versions

# uv (installed or from the lock) takes half the time of pip. If it fails, for example because only pip knows the package index, use
# pip.
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

rehearse: $(READY) ## Rehearse the example platform: a day on the twin, from terraform apply to destroy
	@$(BIN)/sliceworks rehearse examples/platform

# Distribute test files one by one, longest first.
SPREAD := --dist loadfile --no-loadscope-reorder

# Tests wait for other programs half of the time: use three workers per core, or two if the real programs work beside them.
CORES := $(shell getconf _NPROCESSORS_ONLN)
WORKERS := $(shell expr 3 \* $(CORES))
REAL_WORKERS := $(shell expr 2 \* $(CORES))

# Fewer garbage collections in Go programs: a fifth less time, more memory.
GOGC ?= 400

# Compile bytecode once before the workers start; otherwise each worker compiles everything.
$(VENV)/.compiled: $(READY)
	@$(BIN)/pytest -q --collect-only >/dev/null || true
	@touch $@

test: $(VENV)/.compiled ## Run all tests that need only Python
	@$(BIN)/pytest -q -m "not real" -n $(WORKERS) $(SPREAD) $(PYTEST_ARGS)

test-real: $(READY) ## Run the contract suite on the real programs too, and the console in Chromium (needs Go and Chromium; builds are cached)
	@$(BIN)/python -m tests.real.setup
	@SLICEWORKS_REAL=1 GOGC=$(GOGC) $(BIN)/pytest -q -m real -n $(REAL_WORKERS) $(SPREAD) $(PYTEST_ARGS)

# The versions of the compatibility matrix in docs/reference/versions.md, besides those that `test-real` uses.
MATRIX := kubernetes=1.31.4,jobset=0.10.1,helm=3.17.4 kubernetes=1.32.5,jobset=0.10.1 kubernetes=1.33.13,jobset=0.10.1 \
  kubernetes=1.34.4,jobset=0.11.0 kueue=0.16.1
MATRIX_TESTS := tests/contract/test_helm.py tests/contract/test_client.py tests/contract/slices tests/contract/graphs/test_controller.py \
  tests/contract/workloads/test_training.py
MATRIX_PROGRAMS := etcd kube-apiserver kube-controller-manager kube-scheduler kubectl jobset kueue helm

test-versions: $(READY) ## Run the chart, both controllers, training jobs and the client on the other versions in MATRIX (needs Go)
	@for versions in $(MATRIX); do \
	  export SLICEWORKS_VERSIONS="$${versions//,/ }"; echo "$$SLICEWORKS_VERSIONS"; \
	  $(BIN)/python -m tests.real.other_versions; \
	  $(BIN)/python -m tests.real.build $(MATRIX_PROGRAMS) >/dev/null; \
	  SLICEWORKS_REAL=1 GOGC=$(GOGC) $(BIN)/pytest -q -m real -n $(WORKERS) $(SPREAD) $(MATRIX_TESTS) $(PYTEST_ARGS); \
	done

test-mixed: $(READY) ## Run all contract cases of workloads and kro's examples with the real controllers on the twin's API (needs Go)
	@$(BIN)/python -m tests.real.setup
	@SLICEWORKS_REAL=1 SLICEWORKS_MIXED=1 GOGC=$(GOGC) $(BIN)/pytest -q -m real -k mixed -n $(REAL_WORKERS) $(SPREAD) \
	  tests/contract/workloads tests/contract/graphs $(PYTEST_ARGS)

FOCUS ?=
CONFORMANCE_ARGS ?=

conformance: $(READY) ## Run Kubernetes' conformance suite on a twin and store the results: make conformance FOCUS=REGEX (needs Go; builds once)
	@$(BIN)/python -m tests.conformance.suite --focus "$(FOCUS)" $(CONFORMANCE_ARGS)

test-heavy: $(READY) ## Run slow tests: images, cert-manager, Istio with Envoy, vLLM on CPUs (needs Go, and root for Debian packages)
	@SLICEWORKS_HEAVY=1 SLICEWORKS_REAL=1 GOGC=$(GOGC) $(BIN)/pytest -q tests/heavy $(PYTEST_ARGS)
	@SLICEWORKS_FUZZ=60 $(BIN)/pytest -q tests/fuzz tests/twin/store/test_recovery.py tests/contract/test_crash.py tests/serving/test_crashes.py $(PYTEST_ARGS)
	@SLICEWORKS_FUZZ=60 $(BIN)/pytest -q -m hypothesis --ignore tests/fuzz $(PYTEST_ARGS)

test-lives: $(READY) ## Run 500 random simulations each of the whole twin, of the slices controller and of `train why`, with kills and faults
	@SLICEWORKS_SEEDS=$${SLICEWORKS_SEEDS:-500} $(BIN)/pytest -q -n auto --dist load tests/twin/test_twin_simulation.py \
	  tests/controllers/slices/test_random_simulation.py tests/training/diagnosis/test_obstructed_clusters.py $(PYTEST_ARGS)

GKE_FOLDER ?= build/gke-$(shell date -u +%Y%m%d-%H%M%S)
GKE_ARGS ?=

gke: $(READY) ## Create, use and destroy the example environments in a throw-away project: make gke PROJECT=ID (costs money; asks first)
	@[ -n "$(PROJECT)" ] || { echo "PROJECT: required, the ID of a project that contains nothing else"; exit 2; }
	@$(BIN)/python -m tests.gke.suite --project "$(PROJECT)" --folder "$(GKE_FOLDER)" $(GKE_ARGS)

check: $(READY) ## Check lint, formatting, types, import layers and the lists of modules
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/pytest -q tests/test_architecture.py

fix: $(READY) ## Fix what `check` can fix, and regenerate pages
	@$(BIN)/ruff check --fix
	@$(BIN)/ruff format
	@$(BIN)/python docs/generate.py

bench: $(READY) ## Run the benchmarks, print ratios and store results (needs an idle machine)
	@$(BIN)/python -m bench

bench-check: $(READY) ## Run quick benchmarks; fail if a ratio is more than 20 % lower than the stored one
	@$(BIN)/python -m bench --check

wheel: $(READY) ## Build the wheel and its SHA-256 into dist/
	@rm -rf dist && $(BIN)/python -m hatchling build -t wheel -d dist >/dev/null
	@cd dist && { sha256sum *.whl 2>/dev/null || shasum -a 256 *.whl; } | tee SHA256SUMS

# Only tracked files: others can be Terraform states, which have secrets.
sdist: $(READY) ## Build the source distribution into dist/
	@rm -rf build/sdist && mkdir -p build/sdist dist
	@git ls-files -z | tar --null --files-from=- --create --file=- | tar --extract --directory=build/sdist
	@dist="$$PWD/dist" python="$$(cd $(BIN) && pwd)/python" && cd build/sdist && "$$python" -m hatchling build -t sdist -d "$$dist" >/dev/null

# The tool has its own environment: it has as many dependencies as Sliceworks.
SBOM := build/sbom
$(SBOM)/.ready: requirements/sbom.txt $(READY)
	@$(or $(UV),$(BIN)/uv) venv --quiet --clear --python $(BIN)/python $(SBOM)
	@$(or $(UV),$(BIN)/uv) pip install --quiet --python $(SBOM)/bin/python --require-hashes -r requirements/sbom.txt
	@touch $@

sbom: $(SBOM)/.ready ## Write software bills of materials (CycloneDX) of the locked packages into dist/
	@mkdir -p dist && sed 's/^dynamic = .*/version = "$(VERSION)"/' pyproject.toml > $(SBOM)/pyproject.toml
	@for lock in requirements/runtime.txt deploy/requirements/{controllers,gateway,load-worker,converter}.txt; do \
	  name=$$(basename $$lock .txt); \
	  PYTHONWARNINGS=ignore $(SBOM)/bin/cyclonedx-py requirements $$lock --pyproject $(SBOM)/pyproject.toml --output-reproducible --spec-version 1.6 \
	    --output-file dist/sbom-$$name-$(VERSION).cdx.json; \
	done

VERSION = $(shell sed -nE 's/^__version__.* = "(.*)"/\1/p' src/sliceworks/__init__.py)
REGISTRY ?= registry.example
SIGN ?= cosign sign --yes
HELM_FLAGS ?=
HELM ?= $(shell command -v helm || $(BIN)/python -m tests.real.build helm)

release-check: $(READY) ## Check that TAG is the version of the package, the chart and the manifests
	@[ "$(TAG)" = "v$(VERSION)" ] || { echo "tag $(TAG): must be v$(VERSION), the version in src/sliceworks/__init__.py"; exit 1; }
	@$(BIN)/python docs/changelog.py check $(VERSION)
	@HELM=$(HELM) $(BIN)/python deploy/charts/render.py --check

version: ## Write the version TO everywhere in the tree
	@$(PYTHON) docs/set_version.py "$(TO)"

changelog: $(READY) ## Move the fragments in changes/ to a section of the version in CHANGELOG.md
	@$(BIN)/python docs/changelog.py release $(VERSION)

release: wheel sdist sbom docs ## Build everything that a release contains into dist/; REGISTRY has the images
	@HELM=$(HELM) $(BIN)/python deploy/charts/render.py --registry $(REGISTRY) --output build/manifests
	@cp build/manifests/controllers/install.yaml dist/install.yaml && cp build/manifests/gateway/install.yaml dist/install-gateway.yaml
	@$(HELM) package deploy/charts/sliceworks --destination dist >/dev/null
	@tar -czf dist/documentation-$(VERSION).tar.gz -C site .
	@$(BIN)/python docs/changelog.py notes $(VERSION) --registry $(REGISTRY) > dist/RELEASE_NOTES.md
	@cd dist && rm -f SHA256SUMS && sums=$$(sha256sum * 2>/dev/null || shasum -a 256 *) && tee SHA256SUMS <<<"$$sums"

# Multi-arch images with SBOM and provenance, signed by digest with the identity of the workflow. Needs Docker, cosign and an account.
push-images:
	@for image in controllers gateway load-worker; do \
	  docker buildx build --file deploy/Dockerfile --target $$image --platform linux/amd64,linux/arm64 --sbom=true --provenance=mode=max \
	    --tag $(REGISTRY)/$$image:$(VERSION) --metadata-file build-$$image.json --push . ; \
	  $(SIGN) $(REGISTRY)/$$image@$$(sed -nE 's/.*"containerimage.digest": "([^"]+)".*/\1/p' build-$$image.json); \
	done

# HELM_FLAGS=--plain-http and SIGN=true push to a registry on this machine.
push-chart:
	@mkdir -p build && $(HELM) push dist/sliceworks-$(VERSION).tgz oci://$(REGISTRY)/charts $(HELM_FLAGS) 2>&1 | tee build/chart.txt
	@$(SIGN) $(REGISTRY)/charts/sliceworks@$$(sed -nE 's/^Digest: //p' build/chart.txt)

manifests: $(READY) ## Render the plain manifests of the Helm chart into deploy/ (needs Helm or Go)
	@$(BIN)/python deploy/charts/render.py

docs: $(READY) ## Build the documentation into site/
	@$(BIN)/python docs/generate.py --check
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "open site/index.html"

PAGES ?= build/pages

docs-site: ## Add the documentation in site/ to PAGES, a folder with one site per version
	@python3 docs/site_versions.py site $(PAGES) $(VERSION)

docs-serve: $(READY) ## Serve the documentation with live reload
	@$(BIN)/mkdocs serve

# Lock files contain versions and hashes but no index: each machine uses its own.
COMPILE = uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate --custom-compile-command "make lock"

# Praxis has dependencies that need an old Python; Sax's quantization uses none of them.
CONVERTER = $(subst --universal --python-version 3.11,--python-version 3.13 --python-platform x86_64-manylinux_2_28,$(COMPILE))

lock: ## Resolve the newest allowed versions into requirements/ and deploy/requirements/ (needs uv)
	@for name in dev runtime; do \
	  group=$$([ $$name = dev ] && echo "--group dev" || echo "--constraints requirements/dev.txt"); \
	  $(COMPILE) --upgrade $$group pyproject.toml --output-file requirements/$$name.txt; \
	done
	@echo uv | $(COMPILE) --upgrade --output-file requirements/setup.txt -
	@echo cyclonedx-bom | $(COMPILE) --upgrade --constraints requirements/dev.txt --output-file requirements/sbom.txt -
	@echo hatchling | $(COMPILE) --constraints requirements/dev.txt --output-file deploy/requirements/build.txt -
	@for image in "controllers --extra=google" "gateway --extra=google --extra=grpc --extra=tracing" "load-worker --extra=google --extra=load"; do \
	  set -- $$image; \
	  $(COMPILE) --constraints requirements/dev.txt $${@:2} --output-file deploy/requirements/$$1.txt pyproject.toml; \
	done
	@$(CONVERTER) --upgrade --output-file deploy/requirements/converter.txt deploy/requirements/converter.in
	@echo praxis==1.4.0 | $(CONVERTER) --no-deps --no-header - >> deploy/requirements/converter.txt

clean: ## Delete all generated files, including .venv
	@rm -rf $(VENV) site build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
