# Everything a contributor or a newcomer needs: `make demo` and `make test` set up what they use.
SHELL := /bin/bash
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
READY := .venv/.ready
BENCH := .venv-bench/.ready

.PHONY: setup demo test lint bench bench-learning bench-train bench-rollout clean
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

bench: $(BENCH)
	@for file in benchmarks/bench_*.py; do name=$$(basename $$file .py); echo "== $$name"; $(BIN)/python -m benchmarks.$$name || exit 1; done

# What bench_train compares with lies in a layer over .venv, which stays as it is.
$(BENCH): benchmarks/requirements.txt $(READY)
	@echo "Setting up .venv-bench ..."
	@test -x .venv-bench/bin/python || $(BIN)/python -m venv .venv-bench
	@$(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' > "$$(.venv-bench/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/main.pth"
	@.venv-bench/bin/pip install -qq --disable-pip-version-check --no-deps -r benchmarks/requirements.txt
	@touch $(BENCH)

bench-train: $(BENCH)
	@$(BIN)/python -m benchmarks.bench_train

bench-rollout: setup
	@$(BIN)/python -m benchmarks.bench_rollout

bench-learning: setup
	@$(BIN)/python -m benchmarks.bench_learning

clean:
	rm -rf .venv .venv-bench runs build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
