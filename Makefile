# make demo    create a small virtual environment without torch, and show what unire does
# make install create one in .venv with everything in it
# make quick   run the fast tests (under 90 seconds on two cores)
# make test    run all tests, with coverage
# make docs    build the documentation site in build/site
# make check   run lint, types, docs and all tests
# TORCH chooses the build of torch (TORCH=torch==2.13.0), PYTEST adds options (PYTEST="-k decoding").
PYTHON ?= python3
TORCH ?= torch==2.13.0
VENV ?= .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
DEMO := build/demo/venv

RUN_TESTS := OMP_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false $(BIN)/python -m pytest -n auto --dist worksteal

.PHONY: demo install quick test lint types docs check clean

demo: $(DEMO)/.installed
	$(DEMO)/bin/python demo/demo.py

$(DEMO)/.installed: pyproject.toml
	$(PYTHON) -m venv $(DEMO)
	$(DEMO)/bin/python -m pip install --quiet --disable-pip-version-check --editable .
	touch $@

install: $(INSTALLED)

# torch first and alone, so that the other packages find the build that TORCH chooses. --no-compile, because most of the
# 20,000 modules are never imported; Python compiles the others when it imports them.
$(INSTALLED): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --no-compile "$(TORCH)"
	$(BIN)/python -m pip install --quiet --no-compile --editable ".[dev]"
	touch $@

quick: install
	$(RUN_TESTS) -m "not slow and not browser and not ray" $(PYTEST)

test: install
	$(RUN_TESTS) --cov --cov-report=term $(PYTEST)

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: install
	$(BIN)/mypy

docs: install
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

check: lint types docs test

clean:
	rm -rf $(VENV) build dist .coverage .hypothesis .mypy_cache .pytest_cache .ruff_cache
