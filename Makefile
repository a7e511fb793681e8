# Each target installs what it needs first. PYTHON picks the interpreter (3.11 or newer), VENV the environment.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# Two processes: a file stays in one, but for the contract of the tasks, which is shared out by task (tests/conftest.py).
PARALLEL := --numprocesses 2 --dist loadgroup
LINKS := wcbench/profilers wcbench/analysis wcbench/reports

.PHONY: install run test test-all check docs samples links clean

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

# The generated pages of docs/, which the tests compare with the code, and the site in docs/_build/html: warnings are
# errors, and nothing is fetched.
docs: install
	$(BIN)/python docs/build.py
	$(BIN)/sphinx-build -q -W --keep-going -n docs docs/_build/html

# reports/samples: the report of the study of both suites, made anew where it was not made before.
samples: install
	$(BIN)/python reports/samples/build.py

clean:
	rm -rf $(VENV) $(LINKS) build dist docs/_build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
