# `make demo` on a fresh machine: makes a small virtual environment and shows what unire does. No torch, no GPU.
# `make test` makes one with everything in it, and runs all tests.
PYTHON ?= python3
TORCH ?= torch==2.13.0
VENV ?= .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
DEMO := build/demo/venv

.PHONY: demo install test lint types check clean

demo: $(DEMO)/.installed
	$(DEMO)/bin/python demo/demo.py

$(DEMO)/.installed: pyproject.toml
	$(PYTHON) -m venv $(DEMO)
	$(DEMO)/bin/python -m pip install --quiet --disable-pip-version-check --editable .
	touch $@

install: $(INSTALLED)

# torch first and by itself, so that the build chosen by TORCH is the one that everything else finds installed;
# of the 20,000 modules of all packages one in five is ever imported, and compiled then
$(INSTALLED): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --no-compile "$(TORCH)"
	$(BIN)/python -m pip install --quiet --no-compile --editable ".[dev]"
	touch $@

test: install
	OMP_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false $(BIN)/python -m pytest -n auto --dist worksteal --cov --cov-report=term $(PYTEST)

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: install
	$(BIN)/mypy

check: lint types test

clean:
	rm -rf $(VENV) build dist .coverage .hypothesis .mypy_cache .pytest_cache .ruff_cache
