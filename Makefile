# Two commands for newcomers: `make demo` and `make test`. Both make their own environment in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUNS := $(VENV)/.runs
TESTS := $(VENV)/.tests
KEPT := .test-cache
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# A report to demonstrate on instead of the recordings that come with gpuprof: make demo REPORT=path.
REPORT ?=
DEMO := gpuprof-demo

.PHONY: demo test test-all docs clean help

help:
	@echo "make demo [REPORT=file.ncu-rep]   read recordings, or a report, and leave pages in $(DEMO)/"
	@echo "make test                         lint, types and tests; the same in CI"
	@echo "make test-all                     the same, and every variant of every kernel compiled and judged"
	@echo "make docs                         write docs/reference anew from the code"
	@echo "make clean                        remove what the others made"

$(RUNS): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "Python 3.10 or newer is needed: make PYTHON=python3.12")'
	@echo "making an environment in $(VENV), about 360 MB"
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) --editable .
	@touch $(RUNS)

$(TESTS): $(RUNS)
	@echo "adding what the tests need to $(VENV), about 470 MB more"
	@$(PIP) --editable '.[dev]'
	@touch $(TESTS)

demo: $(RUNS)
	@$(BIN)/gpuprof demo $(if $(REPORT),'$(REPORT)') --output $(DEMO)$(if $(REPORT),/report) --force
	@echo "gpuprof is $(BIN)/gpuprof here"

# Bytecode is written in any case: without it each process of the tests compiles all of them anew, for ten seconds.
test: $(TESTS)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n auto --dist loadfile

# What compilers made is kept in $(KEPT), or where GPUPROF_TEST_CACHE says; without it everything is compiled.
test-all:
	@GPUPROF_ALL_VARIANTS=1 $(MAKE) test

docs: $(TESTS)
	$(BIN)/python docs/generate.py

clean:
	rm -rf $(VENV) .venv-torch .nvrtc .nvdisasm $(DEMO) .hypothesis .mypy_cache .pytest_cache .ruff_cache $(KEPT)
