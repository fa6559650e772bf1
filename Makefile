# Two commands do everything on a machine with Python 3.11 and make:
#   make run     serve on 127.0.0.1:8000
#   make test    everything to know before a commit

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
HOST ?= 127.0.0.1
PORT ?= 8000
PYTEST_ARGS ?=

SERVER := $(VENV)/.installed-server
DEV := $(VENV)/.installed-dev
PINS := deploy/constraints.txt pyproject.toml
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint deploy/constraints.txt

TORCH := .venv-torch
TRAINERS := torch==2.13.0 transformers==5.24.0 accelerate==1.15.0 peft==0.21.2 lightning==2.6.6 pytorch-lightning==2.6.6

.DEFAULT_GOAL := help
.PHONY: help run test test-torch test-frameworks lint format fuzz bench chaos accuracy readme openapi coverage clean

help:  ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 18

run: $(SERVER)  ## serve on 127.0.0.1:8000 (HOST=, PORT=)
	@exec $(BIN)/vramgate serve --host $(HOST) --port $(PORT)

test: lint  ## format check, lint, types, imports, spelling, dependencies, then all tests
	$(BIN)/pytest $(PYTEST_ARGS)

lint: $(DEV)  ## everything of `test` that needs no test run
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/codespell
	$(BIN)/deptry service

format: $(DEV)  ## write files the way `lint` wants them
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(DEV)  ## times of one estimate and of many, as ratios measured in one run
	$(BIN)/python -m tests.bench

chaos: $(DEV)  ## report and ask while the service and PostgreSQL are killed or hang; count what is lost
	$(BIN)/python -m tests.chaos

accuracy: $(SERVER)  ## errors of the cost model against measured runs
	$(BIN)/vramgate accuracy

readme: $(DEV)  ## write the README's computed sections anew: answer, accuracy, numbers people know
	$(BIN)/python -m tests.readme

openapi: $(SERVER)  ## write openapi/openapi.json anew
	$(BIN)/vramgate openapi

test-torch: $(TORCH)/.installed  ## the reporter around real trainers (PyTorch for the CPU: a large install, once)
	$(TORCH)/bin/python -m pytest tests/reporter -m torch $(PYTEST_ARGS)

test-frameworks: $(DEV)  ## our reading of launches beside the frameworks' own parsers (large installs, once)
	$(BIN)/python -m tests.launch.judging
	$(BIN)/pytest tests/launch/test_judges.py -m frameworks $(PYTEST_ARGS)

fuzz: $(DEV)  ## ten minutes of damaged launches: no crash, no hang (SECONDS=)
	$(BIN)/python -m tests.launch.fuzz $(or $(SECONDS),600)

coverage: $(DEV)  ## tests with branch coverage
	$(BIN)/pytest --cov --cov-report=term $(PYTEST_ARGS)

clean:  ## remove the environment and everything made by tools
	rm -rf $(VENV) $(TORCH) .venv-frameworks build dist .coverage .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find service tests -name __pycache__ -prune -exec rm -rf {} +
	find service -name '*.egg-info' -prune -exec rm -rf {} +

$(TORCH)/.installed: $(PINS) | $(BIN)/python
	$(PYTHON) -m venv $(TORCH)
	$(TORCH)/bin/python -m pip install --quiet --disable-pip-version-check --constraint deploy/constraints.txt \
	  --editable '.[server,dev]' $(TRAINERS)
	@touch $@

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed: put python3.11 on the PATH."; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Python 3.11 or newer is needed; $(PYTHON) is older. Try: make PYTHON=python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(SERVER): $(PINS) | $(BIN)/python
	@echo "Installing the service into $(VENV) (once, under a minute) ..."
	@$(INSTALL) --editable '.[server]'
	@touch $@

$(DEV): $(PINS) | $(BIN)/python
	@echo "Installing the service and its tools into $(VENV) (once, a minute or two) ..."
	@$(INSTALL) --editable '.[server,dev]'
	@touch $(SERVER) $@
