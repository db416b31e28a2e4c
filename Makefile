# Everything that is run by hand or by CI. Needs GNU make and Python 3.11 or later, nothing else.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
LOWEST := .venv-lowest
AX := .venv-ax

# Test workers, each with one BLAS thread: many small matrices, so threads of one worker only get in the way of another.
WORKERS ?= auto
PYTEST := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --maxprocesses 8

.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:

.PHONY: help
help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: $(VENV)/.demo  ## fit a posterior to an optimiser's evaluations of Two Moons; results in demo/
	$(BIN)/python examples/two_moons.py

.PHONY: test
test: $(VENV)/.dev  ## the fast tests
	$(PYTEST) -m "not slow"

.PHONY: test-slow
test-slow: $(VENV)/.dev  ## the statistical tests, over several seeds
	$(PYTEST) -m slow

# The files that need more than the library, its extras and pytest are left out.
ELSEWHERE := tests/test_docs.py tests/test_docs_names.py tests/test_docs_browser.py tests/test_recipes.py tests/test_report_browser.py \
	tests/test_readers_fitters.py

.PHONY: test-lowest
test-lowest: $(LOWEST)/.made  ## the fast tests with the oldest versions that pyproject.toml allows, in .venv-lowest
	$(subst $(BIN),$(LOWEST)/bin,$(PYTEST)) -m "not slow" tests $(addprefix --ignore=,$(ELSEWHERE))

.PHONY: test-ax
test-ax: $(AX)/.made  ## the recipe of Ax, which brings torch, in .venv-ax
	$(subst $(BIN),$(AX)/bin,$(PYTEST)) tests/test_recipes.py -k "[ax]"

.PHONY: dist
dist: $(VENV)/.dev  ## the wheel and the source distribution, in dist/
	$(BIN)/python .ci/release.py > /dev/null
	$(BIN)/python -m build --outdir dist

.PHONY: lint
lint: $(VENV)/.dev  ## style and format of the sources
	$(BIN)/ruff check
	$(BIN)/ruff format --check

.PHONY: types
types: $(VENV)/.dev  ## static types
	$(BIN)/mypy

.PHONY: docs
docs: $(VENV)/.dev  ## the documentation site, in build/docs/; a warning is an error
	$(BIN)/python -m sphinx -W --keep-going -q -d build/doctrees docs build/docs

.PHONY: tutorials
tutorials: $(VENV)/.dev  ## execute the notebooks of docs/tutorials, with new outputs
	OPENBLAS_NUM_THREADS=1 $(BIN)/python docs/tutorials/execute.py psychometric q_learning epidemic supernova

.PHONY: check
check: lint types docs test  ## what CI runs

.PHONY: bench
bench: $(VENV)/.bench  ## a small version of the experiments; results in bench-results/
	$(BIN)/vsbq bench run --suite small --results bench-results
	$(BIN)/vsbq bench table --suite small --results bench-results

.PHONY: pages
pages: $(VENV)/.dev  ## the tables and figures of README, documentation and paper, from benchmarks/results
	for page in README.md docs/results.md docs/zoo.md docs/paper/paper.md; do \
	  $(BIN)/vsbq bench page $$page --results benchmarks/results || exit 1; done
	$(BIN)/vsbq bench trust --page docs/trust.md --results benchmarks/results

.PHONY: clean
clean:  ## remove the environment, the caches and what the demo wrote
	rm -rf $(VENV) $(LOWEST) $(AX) demo bench-results build dist .pytest_cache .mypy_cache .ruff_cache
	find src tests examples benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

# Set-up runs once, and again when a pyproject.toml changes.

$(VENV)/.created:
	@$(PYTHON) -c 'import sys; sys.exit("vsbq needs Python 3.11 or later: make PYTHON=python3.12" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --upgrade "pip>=25.1"
	@touch $@

$(VENV)/.demo: pyproject.toml $(VENV)/.created
	$(BIN)/python -m pip install -q -e ".[demo]"
	@touch $@

$(VENV)/.bench: pyproject.toml benchmarks/pyproject.toml $(VENV)/.created
	$(BIN)/python -m pip install -q -e . -e benchmarks
	@touch $@

$(VENV)/.dev: pyproject.toml benchmarks/pyproject.toml $(VENV)/.created
	$(BIN)/python -m pip install -q -e ".[all]" -e benchmarks --group dev
	@touch $@

# What the tests use. A later pyparsing warns of how old versions of matplotlib call it, and warnings are errors here.
TOOLS := pytest pytest-xdist jax jaxtyping beartype pandas joblib pybads "arviz-stats[xarray]" "pyparsing<3.3"

$(LOWEST)/.made: pyproject.toml .ci/lowest.py
	$(PYTHON) -m venv --clear $(LOWEST)
	$(LOWEST)/bin/python -m pip install -q --upgrade "pip>=25.1"
	$(LOWEST)/bin/python .ci/lowest.py > $(LOWEST)/lowest.txt
	$(LOWEST)/bin/python -m pip install -q -r $(LOWEST)/lowest.txt $(TOOLS)
	$(LOWEST)/bin/python -m pip install -q --no-deps -e .
	@touch $@

$(AX)/.made: pyproject.toml
	$(PYTHON) -m venv --clear $(AX)
	$(AX)/bin/python -m pip install -q --upgrade "pip>=25.1"
	$(AX)/bin/python -m pip install -q -e . "ax-platform>=1.0" pytest pytest-xdist jaxtyping beartype jax
	@touch $@
