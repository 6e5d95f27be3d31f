# On a bare machine with Python 3.11 or later, each target sets up what it needs in .venv first.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: train test test-all soak lint docs bench clean

train: .venv/train
	$(BIN)/pgc train --submissions 200 --gif

# Two workers; each takes the next file, the longest first (tests/conftest.py).
PYTEST := $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

test: .venv/test
	$(PYTEST) -p no:randomly

# In a random order, whose seed is printed; --randomly-seed=… repeats it.
test-all: .venv/all .venv-flower/ready lint
	$(PYTEST) --all
	.venv-flower/bin/python -m pytest tests/flower --all -W ignore::DeprecationWarning

# Kill loops, faults, fuzzing, audits and the whole reproduction, in their long forms: SOAK=4 makes them four times as long.
SOAK := 1
soak: .venv/test
	PGC_SOAK=$(SOAK) $(BIN)/python -m pytest -n 2 --dist loadgroup -p no:randomly -m soak --durations 12

lint: .venv/test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python -m tests.docstrings

docs: .venv/docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo open build/site/index.html

bench: .venv/all
	$(BIN)/pgc bench

.venv/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(None if sys.version_info >= (3, 11) else "pgc needs Python 3.11 or later")'
	$(PYTHON) -m venv .venv

.venv/train: .venv/bin/python requirements.txt pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	touch $@

.venv/test: .venv/train requirements-test.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-test.txt
	touch $@

.venv/docs: .venv/train requirements-docs.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-docs.txt
	touch $@

.venv/all: .venv/test requirements-all.txt requirements-docs.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-all.txt
	touch $@

# Flower's pins exclude ours.
.venv-flower/ready: .venv/bin/python requirements-flower.txt pyproject.toml
	$(PYTHON) -m venv .venv-flower
	.venv-flower/bin/python -m pip install --quiet --disable-pip-version-check -r requirements-flower.txt
	.venv-flower/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	touch $@

clean:
	rm -rf .venv .venv-flower build src/*.egg-info .pytest_cache .mypy_cache .ruff_cache
