# Everything a stranger needs: `make demo` and `make test` set the machine up by themselves.
# Needs only make and Python >= 3.11; works with the make 3.81 of macOS.

SHELL := /bin/sh
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
LOCK := requirements-dev.lock
MEASURED = $(BIN)/coverage run -p --source=cerise.engines.automaton,cerise.engines.nfa,cerise.kernels -m pytest --timeout 0
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python3.14; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)

.DEFAULT_GOAL := help
.PHONY: help setup demo quick test nightly check agree bench coverage lock clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' Makefile

setup: $(READY) ## Create .venv with everything in it (the targets below do this by themselves)

demo: $(READY) ## Find patterns in generated events with Spark
	@$(BIN)/cerise compile automata
	@$(BIN)/cerise demo

# Engines are compiled once beside the checks, instead of by every process that the first tests start.
test: $(READY) ## Check, then test; this is what CI runs
	@$(BIN)/cerise compile & $(MAKE) --no-print-directory check || exit 1; wait; \
		$(BIN)/python -m pytest -n 2 --dist loadgroup

quick: $(READY) ## Check, then run the tests that are quick, every case among them; for every edit
	@$(MAKE) --no-print-directory check
	@$(BIN)/python -m pytest -n 2 --dist loadgroup -m "not nightly and not spark and not slow"

nightly: $(READY) ## Run every test, also those that take long, and compare at length (hours)
	@CERISE_EXAMPLES=1200 $(BIN)/python -m pytest -n 2 --dist loadgroup --timeout 7200 -m "nightly or not nightly"
	@CERISE_DOORS=100000 $(BIN)/python -m pytest -n 2 --timeout 0 tests/test_door_fuzz.py
	@$(MAKE) --no-print-directory agree

check: $(READY) ## Formatting, lint and types
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy --strict

agree: $(READY) ## Compare the compiled engines with the reference on 100,000 pairs (an hour)
	@env -u NUMBA_DISABLE_JIT CERISE_EXAMPLES=100000 $(BIN)/python -m pytest -n 2 --dist loadgroup --timeout 0 \
		-m "nightly or not nightly" tests/test_agreement.py -k "agree_with_the_reference or counts_as_many"

bench: $(READY) ## List the benchmarks; `make bench SUITE=foundation` runs one
	@$(BIN)/python benchmarks/run.py $(if $(SUITE),$(SUITE) $(ARGS),--list)

# Compiled kernels cannot be measured, so they run as plain Python here; only what compiles runs compiled.
coverage: $(READY) ## Show which lines of the compiled engines and kernels no test runs (ten minutes)
	@rm -f .coverage .coverage.*
	@NUMBA_DISABLE_JIT=1 $(MEASURED) tests/test_cases.py tests/engines/test_nfa_small.py -k "nfa"
	@NUMBA_DISABLE_JIT=1 $(MEASURED) tests/test_api.py -k "explain or compressed"
	@$(MEASURED) tests/kernels
	@$(BIN)/coverage combine --quiet
	@$(BIN)/coverage report

lock: $(READY) ## Pin the newest versions that pyproject.toml allows
	@$(BIN)/uv pip compile pyproject.toml --extra local --group dev --universal --python-version 3.11 \
		--upgrade --no-header --quiet --output-file $(LOCK)

clean: ## Remove .venv and all that tools have left behind
	rm -rf $(VENV) build dist htmlcov .coverage .pytest_cache .mypy_cache .ruff_cache .hypothesis \
		spark-warehouse metastore_db derby.log
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# uv takes a third of the time, but does not read pip's settings: where it finds nothing, pip does.
$(READY): pyproject.toml $(LOCK)
	@if [ -z "$(PYTHON)" ]; then \
		echo "Cerise needs Python 3.11 or newer; found: $$(python3 --version 2>&1 || echo none)."; \
		echo "Install one, or say where it is: make PYTHON=/path/to/python3"; exit 1; fi
	@echo "Setting up $(VENV) with $$($(PYTHON) --version): once, a minute or two ..."
	@$(PYTHON) -m venv --clear $(VENV) || { \
		echo "Python's venv module is missing (on Debian and Ubuntu: apt install python3-venv)."; exit 1; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check "$$(grep '^uv==' $(LOCK))"
	@$(BIN)/uv pip install --quiet --python $(BIN)/python -r $(LOCK) \
		|| $(BIN)/python -m pip install --quiet -r $(LOCK)
	@$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable ".[local]"
	@touch $@
