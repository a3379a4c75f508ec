# Every target sets up what it needs; `make demo` and `make test` are the two commands of the README.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet

.PHONY: help
help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

.PHONY: demo
demo: $(VENV)/.demo  ## broker, worker and the flights of 2013 on this machine; writes demo-report.json
	$(BIN)/headrace demo

.PHONY: test
test: $(VENV)/.dev  ## all tests; those on a real Kafka need Java and Maven
	$(BIN)/python -m pytest

.PHONY: lint
lint: $(VENV)/.dev  ## formatting, lint rules, types, layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

.PHONY: train
train: $(VENV)/.train  ## train the flights model again and register it (torch: some GB)
	$(BIN)/headrace train flights

.PHONY: bench
bench: $(VENV)/.dev  ## beside a hand-written loop and stock Faust on a real Kafka; writes bench-report.json
	$(BIN)/python -m benchmarks

.PHONY: chaos
chaos: $(VENV)/.dev  ## 100 rounds of killed, frozen and restarted workers and brokers, in both modes, both protocols
	$(BIN)/python -m tests.chaos
	$(BIN)/python -m tests.chaos --planted

.PHONY: compose-test
compose-test: $(VENV)/.dev  ## prove the local stack; needs Docker with compose
	$(BIN)/python -m tests.compose.prove

.PHONY: docs
docs: $(VENV)/.dev  ## write the pages that are made from code
	$(BIN)/python -m workers.pages

.PHONY: clean
clean:  ## remove the environment and what tools leave behind
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$(PIP) --upgrade pip

$(VENV)/.demo: pyproject.toml | $(BIN)/python
	$(PIP) --editable '.[cpu,demo]'
	$(BIN)/headrace warm
	touch $@

$(VENV)/.train: pyproject.toml | $(BIN)/python
	$(PIP) --editable '.[cpu,demo,train]'
	touch $@

$(VENV)/.dev: pyproject.toml | $(BIN)/python
	$(PIP) --editable '.[dev]'
	$(BIN)/headrace warm
	touch $@
