# Everything lives in .venv; stamp files there make a second `make` do nothing.
#
#   make setup       core, demo and exports                            make test    lint, then the fast tests
#   make setup-all   the same, plus what `test` and `bench` need       make bench   run the benchmarks, render benchmarks/README.md
#   make docs        build the documentation site into build/docs       make audit   known vulnerabilities of the locked packages

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
# three on two cores: tests wait for servers and browsers
WORKERS ?= 3
ARGS ?=
COVERAGE ?= -m slipcover --json --out .coverage.json
# the project folder of `make up`
PROJECT ?= .

# One thread per process: the arithmetic is small, and tests run in parallel.
export OMP_NUM_THREADS ?= 1
export OPENBLAS_NUM_THREADS ?= 1
# The tests start hundreds of processes: without bytecode on disk each would compile everything again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup setup-all page wheel tools up test test-slow lint format docs bench lock audit sbom size clean

help: ## list the targets
	@grep -hE '^[a-z][a-z-]*:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 20

setup: $(VENV)/.stamp-setup page ## the light environment: core, text, parquet, plot, and the page

setup-all: $(VENV)/.stamp-all $(VENV)/.stamp-page-tools ## the same, plus everything that test and bench need

# Python and venv are checked first, so that the message names what is missing instead of a traceback.
$(VENV)/.stamp-python:
	@found=""; for each in $(PYTHON) python3.13 python3.12 python3.11 python3; do \
	  if command -v $$each >/dev/null && $$each -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then found=$$each; break; fi; \
	done; \
	if [ -z "$$found" ]; then \
	  have=$$(command -v $(PYTHON) >/dev/null && $(PYTHON) -V 2>&1 || echo "not on PATH"); \
	  echo "Headway needs Python 3.11 or newer; '$(PYTHON)' is $$have." >&2; \
	  echo "Install it (Debian, Ubuntu: apt install python3.11 python3.11-venv) or name one: make PYTHON=/path/to/python3" >&2; exit 1; \
	fi; \
	version=$$($$found -c 'import sys; print("%d.%d" % sys.version_info[:2])'); \
	for module in venv ensurepip; do \
	  if ! $$found -c "import $$module" 2>/dev/null; then \
	    echo "$$found has no module '$$module'. Install it (Debian, Ubuntu: apt install python$$version-venv)." >&2; exit 1; \
	  fi; \
	done; \
	echo "Python $$version ($$found) → $(VENV)"; \
	$$found -m venv $(VENV)
	@touch $@

# hatchling is installed first, so that the editable install needs no second, unpinned build environment.
$(VENV)/.stamp-setup: $(VENV)/.stamp-python pyproject.toml constraints.txt
	@rm -f $(VENV)/pip.log
	$(PIP) install --quiet --progress-bar off --log $(VENV)/pip.log -c constraints.txt hatchling editables
	$(PIP) install --quiet --progress-bar off --log $(VENV)/pip.log -c constraints.txt --no-build-isolation -e '.[text,parquet,plot]'
	@$(BIN)/python scripts/downloaded.py $(VENV)/pip.log
	@touch $@

# torch is installed first and alone: packages that depend on it must not choose another build. litellm comes last and
# alone: it asks for older packages than ours (huggingface-hub) and for some that its router does not need (boto3).
$(VENV)/.stamp-all: $(VENV)/.stamp-setup requirements/bench.txt requirements/examples.txt $(VENV)/.stamp-docs
	$(PIP) install --quiet -c constraints.txt torch==2.13.0
	$(PIP) install --quiet -c constraints.txt --no-build-isolation -e '.[text,wordllama,parquet,plot,learn,worlds,language,postgres,dev]' \
	  -r requirements/bench.txt -r requirements/examples.txt
	$(PIP) install --quiet --no-deps -c constraints.txt litellm
	@touch $@

$(VENV)/.stamp-docs: requirements/docs.txt | $(VENV)/.stamp-setup
	$(PIP) install --quiet -c constraints.txt -r requirements/docs.txt
	@touch $@

# The page: Node 20.19 or newer from PATH, otherwise from a wheel; without both, everything else works.
PAGE_FILES := $(shell find dashboard -name node_modules -prune -o -type f ! -name schema.d.ts -print)

page: $(VENV)/.stamp-page ## build the dashboard into src/headway/serve/static

$(VENV)/.stamp-page: $(PAGE_FILES) scripts/build_page.py | $(VENV)/.stamp-setup
	$(BIN)/python scripts/build_page.py --stamp $@

$(VENV)/.stamp-page-tools: dashboard/package-lock.json | $(VENV)/.stamp-page
	$(BIN)/python scripts/build_page.py --tools --stamp $@

wheel: page ## write dist/: the wheel and the source archive, both with the page
	rm -rf dist
	$(BIN)/python -m hatchling build -d dist

# Some tests need programs that pip cannot install: a browser, a sandbox, and in CI a proxy, which as a package starts
# a service. Without them, these tests are skipped.
tools:
	@wanted=""; \
	command -v chromium chromium-browser google-chrome-stable google-chrome >/dev/null 2>&1 || wanted="chromium fonts-dejavu-core"; \
	command -v bwrap >/dev/null 2>&1 || wanted="$$wanted bubblewrap"; \
	if [ -n "$${CI:-}" ]; then PATH="$$PATH:/usr/sbin" command -v nginx >/dev/null 2>&1 || wanted="$$wanted nginx"; fi; \
	if [ -n "$$wanted" ]; then \
	  if command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
	    echo "Installing $$wanted for the tests"; \
	    { apt-get update -qq && apt-get install -y -qq --no-install-recommends $$wanted >/dev/null; } \
	      || echo "$$wanted could not be installed: their tests will be skipped"; \
	  else echo "not on PATH: $$wanted; their tests will be skipped (apt install $$wanted)"; fi; \
	fi

# If the page cannot be built (no Node, no network), a notice is printed and the rest starts.
up: $(VENV)/.stamp-setup ## set up, then run server, loop and page until Ctrl-C (PROJECT=folder, ARGS=--demo)
	@$(MAKE) --no-print-directory page >$(VENV)/page.log 2>&1 || \
	  echo "The page could not be built ($(VENV)/page.log says why); server and loop start without it."
	@mkdir -p '$(PROJECT)'
	@exec $(BIN)/headway -C '$(PROJECT)' up $(ARGS)

lint: setup-all ## ruff, mypy --strict, import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: setup-all ## apply ruff's automatic fixes
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Coverage counts the processes of the tests, not the servers and commands that they start.
# COVERAGE= turns it off.
test: lint tools ## lint, then the fast tests; prints the slowest twenty and the coverage
	$(BIN)/python $(COVERAGE) -m pytest -n $(WORKERS) --dist worksteal --durations=20 $(ARGS)
	@if [ -n '$(COVERAGE)' ]; then \
	  $(BIN)/python -c 'import json; \
	    print("Coverage: %.1f%% of the lines of src/headway (.coverage.json lists each file)" \
	    % json.load(open(".coverage.json"))["summary"]["percent_covered"])'; \
	fi

test-slow: setup-all ## the slow tests: crashes, contention, memory, the longest pages of the documentation
	$(BIN)/python -m pytest -m slow $(ARGS)

# Warnings are errors: a broken link, a missing anchor, a page that the navigation does not reach.
docs: $(VENV)/.stamp-docs ## build the documentation site into build/docs, offline; broken links fail
	$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going -c docs -d build/doctrees . build/docs
	@echo "The site is in build/docs: open build/docs/index.html"

# obp and d3rlpy declare other dependencies than they need; they run unmodified. The last line: engines of language
# models, beside the packages that are here already.
$(VENV)/.stamp-peers: $(VENV)/.stamp-all
	$(PIP) install --quiet --no-deps --ignore-requires-python obp==0.5.7 d3rlpy==2.8.1 \
	  ctranslate2==4.8.4 onnxruntime-genai==0.18.0 onnx_ir==1.1.0
	@touch $@

bench: setup-all $(VENV)/.stamp-peers ## run benchmarks/*.py and render benchmarks/README.md (ARGS=--quick for a minute each)
	$(BIN)/python benchmarks/_run.py $(ARGS)

# What a release installs, with the SHA-256 of every file: pip install --require-hashes -r requirements/locked/headway.txt
# Without torch, whose build each machine chooses. The tools are installed apart, so that they change nothing here.
LOCKED := requirements/locked/headway.txt
LOCKED_EXTRAS := text wordllama parquet plot postgres mcp otel
TOOLS := $(VENV)/tools

$(TOOLS)/.stamp: | $(VENV)/.stamp-python
	$(PIP) install --quiet --target $(TOOLS) uv==0.13.7 pip-audit==2.10.1 cyclonedx-bom==7.5.0
	@touch $@

lock: $(TOOLS)/.stamp ## renew requirements/locked from pyproject.toml and constraints.txt
	$(TOOLS)/bin/uv pip compile --quiet --universal --generate-hashes --no-annotate --no-header --python-version 3.11 \
	  -c constraints.txt $(foreach extra,$(LOCKED_EXTRAS),--extra $(extra)) -o $(LOCKED) pyproject.toml

audit: $(TOOLS)/.stamp ## look up the locked packages in the database of known vulnerabilities; says if it cannot be reached
	PYTHONPATH=$(TOOLS) $(BIN)/python scripts/audit.py $(LOCKED)

sbom: $(TOOLS)/.stamp ## write build/headway.cdx.json: the locked packages with their hashes, as CycloneDX
	@mkdir -p build
	PYTHONPATH=$(TOOLS) $(BIN)/python -m cyclonedx_py requirements --pyproject pyproject.toml --output-reproducible \
	  --of JSON -o build/headway.cdx.json $(LOCKED)

size: setup-all ## lines, names and import cycles of each room and kit; functions that one decision calls
	@$(BIN)/python scripts/size.py $(ARGS)

clean: ## remove the environment and the caches of the tools
	rm -rf $(VENV) dashboard/node_modules src/headway/serve/static build dist .mypy_cache .ruff_cache .pytest_cache .coverage.json .hypothesis .import_linter_cache
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
