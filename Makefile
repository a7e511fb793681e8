# Each target installs what it needs first. PYTHON picks the interpreter (3.11 or newer), VENV the environment.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# Two processes: a file stays in one, but for the contract of the tasks, which is shared out by task (tests/conftest.py).
PARALLEL := --numprocesses 2 --dist loadgroup
LINKS := wcbench/profilers wcbench/analysis wcbench/reports

.PHONY: install run test test-all check docs links clean

install: $(VENV)/.installed links

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --editable ".[dev]"
	touch $@

# Editors, mypy and import-linter do not read pyproject's package-dir; with these links they see one package.
links: $(LINKS)

wcbench/%: %
	ln -sfn ../$* $@

# The main job, end to end: profile a task on the CPU and write its report.
run: install
	$(BIN)/wcbench profile spatial-transformer --device cpu
	$(BIN)/wcbench report spatial-transformer

test: install
	$(BIN)/python -m pytest $(PARALLEL)

test-all: install
	$(BIN)/python -m pytest $(PARALLEL) -m "not gpu"

check: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python .ci/types.py
	$(BIN)/lint-imports

# The generated pages of docs/; the tests compare them with the code.
docs: install
	$(BIN)/python docs/build.py

clean:
	rm -rf $(VENV) $(LINKS) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
