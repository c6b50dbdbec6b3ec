# Every target works on a machine that has Python 3.11 or newer and nothing else of ours.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# dagster.yaml lies here; it keeps what Dagster writes in .dagster.
export DAGSTER_HOME := $(CURDIR)

# Dagster's own advice on its command line, which says nothing about a run.
KNOWN_WARNINGS := ignore:Function `asset_materialize_command`,ignore:Parameter `include_sources`

.PHONY: run test test-all ui lint bench clean help

help:  ## List the targets.
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

run: $(VENV)/installed  ## Take the quick-start pages to a trained model, then say where all is.
	@PYTHONWARNINGS='$(KNOWN_WARNINGS)' $(BIN)/dagster asset materialize -m marin_assets.definitions --select '*'
	@$(BIN)/marin-assets summary

ui: $(VENV)/installed  ## Open the web interface on http://127.0.0.1:3000.
	$(BIN)/dagster dev -w workspace.yaml

test: $(VENV)/installed-dev  ## Run the tests.
	$(BIN)/python -m pytest -m "not slow"

test-all: $(VENV)/installed-dev  ## Run the tests, the slow ones as well.
	$(BIN)/python -m pytest

lint: $(VENV)/installed-dev  ## Check style and types.
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

bench: $(VENV)/installed-bench  ## Measure; prints ratios within one run.
	$(BIN)/python -m benchmarks

clean:  ## Remove the environment and all that was made.
	rm -rf $(VENV) .dagster marin_data

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --editable .
	@touch $@

$(VENV)/installed-dev: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@ $(VENV)/installed

$(VENV)/installed-bench: $(VENV)/installed-dev
	$(BIN)/python -m pip install --quiet --editable '.[dev,bench]'
	@touch $@
