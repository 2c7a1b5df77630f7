# Two commands for newcomers: `make demo` and `make test`. Both make their own environment in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUNS := $(VENV)/.runs
TESTS := $(VENV)/.tests
# What `make test` leaves to `make test-rest`.
REST := compilers or browser or torch or slow or field
PYTEST := PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n auto --dist worksteal
# Packages are installed by version and hash. make clean test LOCKED= takes the newest of all instead.
LOCKED ?= yes
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
UV := $(VENV)/.uv/bin/uv pip compile --quiet --no-annotate --custom-compile-command 'make constraints' --universal \
	--python-version 3.10
LOCK := $(UV) --generate-hashes --no-strip-extras --constraint constraints.txt
# torch-2.13.0+cpu-cp311-cp311-manylinux_2_28_x86_64.whl, which PyPI does not have.
TORCH_CPU := --hash=sha256:6746dbcbeb526eb61330b76b41ff1b4eb848951103a892eeb080dfa2b264667b
PYTHONS := 3.10 3.11 3.12 3.13 3.14
PLATFORMS := x86_64-manylinux_2_28 aarch64-manylinux_2_28 aarch64-apple-darwin
# A report to demonstrate on instead of the recordings that come with gpuprof: make demo REPORT=path.
REPORT ?=
DEMO := gpuprof-demo

# What reads reports: for systems on which nothing can be profiled.
READING := $(addprefix tests/test_,container.py damaged_reports.py ncu_csv.py ncu_repz.py reading_files.py \
	real_reports.py recordings.py session_json.py show.py)

.PHONY: demo test test-rest test-all test-reading golden snapshots coverage docs constraints dist clean help

help:
	@echo "make demo [REPORT=file.ncu-rep]   read recordings, or a report, and leave pages in $(DEMO)/"
	@echo "make test                         lint, types and the tests that need no compiler, browser or PyTorch"
	@echo "make test-rest                    the other tests"
	@echo "make test-all                     both, as in CI"
	@echo "make golden                       rewrite tests/golden, what gpuprof says about recorded files"
	@echo "make snapshots                    rewrite tests/__snapshots__, the wording of each view"
	@echo "make test-reading                 the tests of reading reports alone"
	@echo "make coverage                     which lines and branches the tests reach, in coverage/index.html"
	@echo "make docs                         write docs/reference anew from the code"
	@echo "make constraints                  pin what pyproject.toml asks for anew; UPGRADE=1 takes the newest of all"
	@echo "make dist                         build wheel and sdist in dist/, and try them"
	@echo "make clean                        remove what the others made"

$(RUNS): pyproject.toml lock.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "Python 3.10 or newer is needed: make PYTHON=python3.12")'
	@echo "making an environment in $(VENV), about 340 MB"
	@$(PYTHON) -m venv $(VENV)
ifneq ($(LOCKED),)
	@$(PIP) --require-hashes --requirement lock.txt
	@$(PIP) --no-deps --no-build-isolation --editable .
else
	@$(PIP) --editable .
endif
	@touch $(RUNS)

$(TESTS): $(RUNS) lock-dev.txt
	@echo "adding what the tests need to $(VENV), about 830 MB more"
ifneq ($(LOCKED),)
	@$(PIP) --require-hashes --requirement lock-dev.txt
else
	@$(PIP) --editable '.[dev]'
endif
	@touch $(TESTS)

demo: $(RUNS)
	@$(BIN)/gpuprof demo $(if $(REPORT),'$(REPORT)' --force) --output $(DEMO)$(if $(REPORT),/report)
	@echo "gpuprof is $(BIN)/gpuprof here"

# mypy runs beside the tests. Bytecode is written in any case: without it every process rewrites all tests anew.
test: $(TESTS)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@$(BIN)/mypy >$(VENV)/.mypy.txt & types=$$!; $(PYTEST) -m 'not ($(REST))'; status=$$?; \
		wait $$types || status=1; cat $(VENV)/.mypy.txt; exit $$status

test-rest: $(TESTS)
	$(PYTEST) -m '$(REST)'

test-all: test test-rest

golden: $(TESTS)
	$(BIN)/python -m benchmarks.golden $(if $(GPUPROF_FIELD_REPORTS),--field $(GPUPROF_FIELD_REPORTS))

snapshots: $(TESTS)
	$(PYTEST) --snapshot-update tests/test_snapshots.py

test-reading: $(TESTS)
	$(PYTEST) -m 'not ($(REST))' $(READING)

# Slower than the tests, for what they start is measured, too. FILES= takes some tests.
FILES ?=
coverage: $(TESTS)
	$(BIN)/python -m coverage erase
	$(PYTEST) --cov --cov-report= $(FILES)
	$(BIN)/python -m coverage html --quiet
	$(BIN)/python -m coverage report --format=total

docs: $(TESTS)
	$(BIN)/python docs/generate.py

# uv solves for every Python and system at once, and then has to find a wheel of each of these versions for each of them.
# It is installed beside the environment, which cannot be made while pyproject.toml and the pins disagree.
# constraints.txt has the versions alone, for pip install --constraint: pip takes no hashes from there. The locks have the
# same versions with their hashes, and what builds an editable gpuprof.
constraints:
	@$(PYTHON) -m venv $(VENV)/.uv
	@$(VENV)/.uv/bin/python -m pip install --quiet --disable-pip-version-check uv
	@echo editables | $(UV) $(if $(UPGRADE),--upgrade) --extra dev pyproject.toml - --output-file constraints.txt
	@printf 'hatchling\neditables\n' | $(LOCK) pyproject.toml - --output-file lock.txt
	@echo editables | $(LOCK) --extra dev pyproject.toml - --output-file lock-dev.txt
	@echo torch | $(UV) $(if $(UPGRADE),--upgrade) - --output-file .ci/constraints-torch.txt
	@{ echo '# Hashes of what .ci/run downloads besides the locks. Written by make constraints.'; \
		for package in torch $$(grep -oE '[a-z0-9-]+==[0-9.]+' .ci/run | sort -u); do echo $$package | $(UV) --no-header \
			--generate-hashes $$([ $$package = torch ] && echo --constraint .ci/constraints-torch.txt || echo --no-deps) -; \
		done; echo '# torch for CPUs alone, of PyTorch itself'; echo $(TORCH_CPU); } >.ci/hashes.txt
	@for python in $(PYTHONS); do for platform in $(PLATFORMS); do \
		echo "wheels for Python $$python, $$platform"; \
		$(VENV)/.uv/bin/uv pip compile --quiet --only-binary :all: --constraint constraints.txt --extra dev \
			--python-version $$python --python-platform $$platform pyproject.toml >/dev/null || exit; \
	done; done

# A wheel and an sdist of what is committed, checked, and the wheel tried in an environment of its own.
dist: $(TESTS)
	@git diff --quiet HEAD || { echo "commit first: what is built should be what is tagged" >&2; exit 1; }
	rm -rf dist $(VENV)/.dist
	$(BIN)/python -m hatchling build
	$(BIN)/python .ci/check_dist.py dist
	$(PYTHON) -m venv $(VENV)/.dist
	PIP_CONSTRAINT=constraints.txt $(VENV)/.dist/bin/python -m pip install --quiet --disable-pip-version-check dist/*.whl
	cd $(VENV)/.dist && bin/gpuprof --version && bin/gpuprof specs check && bin/gpuprof demo --output demo >demo.txt
	@ls -l dist

clean:
	rm -rf $(VENV) .venv-torch .nvrtc .nvdisasm $(DEMO) coverage .coverage* dist .hypothesis .pytest_cache .ruff_cache
