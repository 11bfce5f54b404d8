# Everything lives in .venv; stamp files there make a second `make` do nothing.
#
#   make setup       core + what the demo and the exports use          make test    lint, then every test that is not slow
#   make setup-all   and what `test` and `bench` need                  make bench   measure, render benchmarks/README.md

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
WORKERS ?= 2
ARGS ?=

# One thread per process: the arithmetic here is small, and tests run side by side.
export OMP_NUM_THREADS ?= 1
export OPENBLAS_NUM_THREADS ?= 1

.PHONY: help setup setup-all up test test-slow lint format bench clean

help: ## what there is
	@grep -hE '^[a-z][a-z-]*:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 20

setup: $(VENV)/.stamp-setup ## the light environment: core, text, parquet, plot

setup-all: $(VENV)/.stamp-all ## and everything that test and bench need

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

# hatchling comes first, so that the editable install needs no second, unpinned build environment.
$(VENV)/.stamp-setup: $(VENV)/.stamp-python pyproject.toml constraints.txt
	$(PIP) install --quiet -c constraints.txt hatchling editables
	$(PIP) install --quiet -c constraints.txt --no-build-isolation -e '.[text,parquet,plot]'
	@touch $@

# torch comes first and alone where something needs it (uncomment the line together with the first import of it).
$(VENV)/.stamp-all: $(VENV)/.stamp-setup requirements/bench.txt requirements/examples.txt
#	$(PIP) install --quiet -c constraints.txt torch==2.13.0
	$(PIP) install --quiet -c constraints.txt --no-build-isolation -e '.[text,parquet,plot,dev]' \
	  -r requirements/bench.txt -r requirements/examples.txt
	@touch $@

up: setup ## set up, then play the route demo in a scratch directory
	@scratch=$$(mktemp -d "$${TMPDIR:-/tmp}/headway-demo.XXXXXX"); \
	here=$$(pwd); cd "$$scratch"; "$$here/$(BIN)/headway" demo route; \
	echo; \
	echo "The demo's project is in $$scratch; look at it with"; \
	echo "    cd $$scratch && $$here/$(BIN)/headway status"; \
	echo "Start your own in any folder:"; \
	echo "    source $$here/$(BIN)/activate && headway init"

lint: setup-all ## ruff, mypy --strict, import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: setup-all ## let ruff rewrite what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

test: lint ## lint, then every test that is not slow
	$(BIN)/python -m pytest -n $(WORKERS) $(ARGS)

test-slow: setup-all ## the long ones: crashes, contention, memory
	$(BIN)/python -m pytest -m slow $(ARGS)

bench: setup-all ## run benchmarks/*.py and render benchmarks/README.md (ARGS=--quick for a minute each)
	$(BIN)/python benchmarks/_run.py $(ARGS)

clean: ## remove the environment and what the tools left behind
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
