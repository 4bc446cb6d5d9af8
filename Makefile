# Everything a contributor or a newcomer needs: `make demo` and `make test` set up what they use.
SHELL := /bin/bash
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
READY := .venv/.ready

.PHONY: setup demo test lint types bench bench-learning clean
setup: $(READY)

$(READY): requirements.lock pyproject.toml
	@command -v "$(PYTHON)" >/dev/null || { echo "make: Python 3.11 is missing; install it or say PYTHON=/path/to/python3.11"; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' || { echo "make: the locked packages need Python 3.11, $(PYTHON) is $$("$(PYTHON)" --version); say PYTHON=/path/to/python3.11"; exit 1; }
	@"$(PYTHON)" -c 'import venv, ensurepip' 2>/dev/null || { echo "make: Python lacks venv and pip (Debian: apt-get install python3-venv python3-pip)"; exit 1; }
	@echo "Setting up .venv (some minutes, about 3 GB) ..."
	@test -x $(BIN)/python || "$(PYTHON)" -m venv .venv
	@$(BIN)/pip install -qq --disable-pip-version-check "$$(grep '^torch==' requirements.lock)"
	@$(BIN)/pip install -qq --disable-pip-version-check --no-deps -r requirements.lock
	@$(BIN)/pip install -qq --disable-pip-version-check --no-deps -e .
	@$(BIN)/python -m compileall -q drmas_dsl runtime
	@touch $(READY)

demo: setup
	@$(BIN)/drmasc graph graphs/lookup.mas
	@rm -rf runs/demo
	@$(BIN)/drmasc train graphs/lookup.mas --run runs/demo

test: setup
	@$(BIN)/python -m pytest -n 2 --dist worksteal

lint: setup
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy

bench: setup
	@for file in benchmarks/bench_*.py; do name=$$(basename $$file .py); echo "== $$name"; $(BIN)/python -m benchmarks.$$name || exit 1; done

bench-learning: setup
	@$(BIN)/python -m benchmarks.bench_learning

clean:
	rm -rf .venv runs build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
