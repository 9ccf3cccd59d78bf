# Works with GNU make 3.81 or newer; needs Python 3.11 or newer, and uses uv where it is installed.
VENV ?= .venv
export VENV PYTHON

.DEFAULT_GOAL := help
.PHONY: help setup setup-dev demo up down reset test iam reference lock audit fuzz bench chaos clean

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

iam: setup-dev ## generate the IAM policies and docs/iam.md from what the activities call, and the template with them
	@$(VENV)/bin/python -m scripts.generate_iam $(ARGS)
	@$(VENV)/bin/python deploy/cloudformation/build.py

reference: setup-dev ## generate docs/reference/ from the code
	@$(VENV)/bin/python -m scripts.generate_reference $(ARGS)

chaos: setup-dev ## run N seeded schedules of operations and faults, or one (N=20 JOBS=2, SEED=7 WITHOUT=3,5)
	@$(VENV)/bin/python -m tests.chaos -n $(or $(N),10) --first $(or $(FIRST),1) --jobs $(or $(JOBS),1) \
		$(if $(SEED),--seed $(SEED)) $(if $(WITHOUT),--without $(WITHOUT))

lock: ## make the locks anew from pyproject.toml (needs uv)
	@bash requirements/lock.sh

audit: ## look the locked packages up in an advisory database (needs one that can be reached)
	@$(VENV)/bin/python scripts/audit.py

fuzz: setup-dev ## try the parsers with far more inputs than the tests do (ARGS="--seconds 600")
	@$(VENV)/bin/python scripts/fuzz.py $(ARGS)

clean: ## remove what setup and the tools made; data is kept
	rm -rf $(VENV) .tools .mypy_cache .ruff_cache .import_linter_cache
