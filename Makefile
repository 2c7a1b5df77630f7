# Two commands for newcomers: `make demo` and `make test`. Both make their own environment in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# A report to demonstrate on: make demo REPORT=path. Without one, a report that lies beside the checkout, if there is one.
REPORT ?= $(firstword $(wildcard ../shared/reports/gpu_workshop-MW_Baseline.ncu-rep))
DEMO := gpuprof-demo

.PHONY: demo test docs clean help

help:
	@echo "make demo [REPORT=file.ncu-rep]   read a report and leave an HTML page in $(DEMO)/"
	@echo "make test                         lint, types and tests; the same in CI"
	@echo "make docs                         write docs/reference anew from the code"
	@echo "make clean                        remove what the others made"

$(STAMP): pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "Python 3.10 or newer is needed: make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $(STAMP)

demo: $(STAMP)
	@$(BIN)/gpuprof demo $(REPORT) --output $(DEMO) --force

test: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -n auto --dist loadfile

docs: $(STAMP)
	$(BIN)/python docs/generate.py

clean:
	rm -rf $(VENV) .venv-torch $(DEMO) .hypothesis .mypy_cache .pytest_cache .ruff_cache
