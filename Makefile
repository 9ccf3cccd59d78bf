# Works with GNU make 3.81 or newer; needs Python 3.11 or newer, and uses uv where it is installed.
VENV ?= .venv
export VENV PYTHON

.DEFAULT_GOAL := help
.PHONY: help setup setup-dev demo up down reset test lock bench clean

help: ## show this
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## install what running needs (.venv, helm); quick when it is all there
	@bash scripts/setup.sh local

setup-dev: ## install what development needs too
	@bash scripts/setup.sh dev

demo: setup ## create a HyperPod cluster in the sandbox, on this machine
	@$(VENV)/bin/instantstart demo $(ARGS)

up: setup ## run the local stack until Ctrl-C
	@$(VENV)/bin/instantstart up $(ARGS)

down: setup ## stop the local stack
	@$(VENV)/bin/instantstart down $(ARGS)

reset: setup ## forget every cluster and operation of the local stack
	@$(VENV)/bin/instantstart reset $(ARGS)

test: setup-dev ## ruff, mypy, import-linter and pytest (ARGS="tests/cli -k watch")
	@bash scripts/check.sh $(ARGS)

bench: setup-dev ## run the benchmarks
	@$(VENV)/bin/python -m bench $(ARGS)

lock: ## make the locks anew from pyproject.toml (needs uv)
	@bash requirements/lock.sh

clean: ## remove what setup and the tools made; data is kept
	rm -rf $(VENV) .tools .mypy_cache .ruff_cache .import_linter_cache
