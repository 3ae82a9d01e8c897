# `make` alone lists the targets. Each one sets up what it needs.

PYTHON ?= python3
WORKERS ?= 2
CYCLES ?= 1000
MINUTES ?= 30
CASES ?= 100000
STORE ?= sqlite
COUNT ?= 40
ONLY ?=

# Tests start hundreds of Python processes, which would each compile all sources.
unexport PYTHONDONTWRITEBYTECODE

BIN := .venv/bin
INSTALLED := .venv/installed-by-make
EXPERIMENTS := .venv/experiments-installed-by-make
PARALLEL := -n $(WORKERS) --dist loadfile --no-loadscope-reorder

.DEFAULT_GOAL := help
.PHONY: help install system-packages test test-system test-all test-oldest test-versions check golden format bench bench-service crash-test soak fuzz mutants paper picture docs release lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: $(INSTALLED) ## set up .venv with everything development needs

$(INSTALLED): pyproject.toml requirements-dev.lock scripts/set-up
	scripts/set-up $(PYTHON) dev
	@touch $@ $(EXPERIMENTS)

# Only what `make paper` needs: a quarter of the packages. The rest is installed when a target needs it.
$(EXPERIMENTS): pyproject.toml requirements-dev.lock scripts/set-up
	scripts/set-up $(PYTHON) experiments
	@touch $@

system-packages: ## install what only tests need: browser, PostgreSQL, nginx (as root, with apt)
	@scripts/system-packages

test: $(INSTALLED) ## run the tests and examples that need only Python
	$(BIN)/python -m pytest -q $(PARALLEL) -m "not slow and not system"

test-system: $(INSTALLED) system-packages ## run those that need a browser, PostgreSQL, nginx, npm, the built manual or an empty environment
	$(BIN)/python -m pytest -q $(PARALLEL) -m "system and not slow"

test-all: $(INSTALLED) system-packages ## run every test, the slow ones too
	$(BIN)/python -m pytest -q $(PARALLEL) -m ""

test-oldest: ## test with the oldest versions that pyproject.toml allows
	scripts/test-oldest $(PYTHON)

test-versions: ## run the tests that need only Python on every Python from 3.11 on that is found
	scripts/test-versions

check: $(INSTALLED) ## check format, style, types and layers
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports --cache-dir .cache/import-linter

golden: $(INSTALLED) ## refresh the files that tests compare with the code
	$(BIN)/python -m tests.golden

format: $(INSTALLED) ## format the code and fix what ruff can fix
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

bench: $(INSTALLED) ## measure speed: ratios within one run
	$(BIN)/python -m benchmarks

bench-service: $(INSTALLED) ## measure the decision service: ratios within one run
	$(BIN)/python -m benchmarks.service

crash-test: $(INSTALLED) system-packages ## kill -9 the service 1,000 times (CYCLES=, STORE=postgresql: two replicas)
	$(BIN)/python -m tests.service.crash_harness --cycles $(CYCLES) --store $(STORE)

soak: $(INSTALLED) system-packages ## three replicas behind nginx for 30 minutes under faults (MINUTES=)
	$(BIN)/python -m tests.service.soak --minutes $(MINUTES)

fuzz: $(INSTALLED) ## send the service 100,000 generated requests (CASES=)
	$(BIN)/python -m tests.service.fuzz_harness --cases $(CASES)

mutants: $(INSTALLED) ## plant 40 small faults and report which no test notices (COUNT=, ONLY=player)
	$(BIN)/python -m tests.mutants --count $(COUNT) --only "$(ONLY)"

paper: $(EXPERIMENTS) ## reproduce the paper into paper/
	$(BIN)/slotwise reproduce --out paper

picture: $(INSTALLED) system-packages ## take the manual's picture of the dashboard anew
	$(BIN)/python -m pytest -q -n 0 tests/browser/test_pictures.py -k "1280 and light"
	cp .cache/screenshots/home.png docs/images/dashboard.png

docs: $(INSTALLED) ## build the manual into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

release: $(INSTALLED) ## build sdist and wheel into dist/ and check them
	scripts/release $(PYTHON)

lock: ## write requirements-dev.lock anew
	scripts/lock $(PYTHON)

clean: ## remove what the targets made, .venv too
	rm -rf .venv .venv-oldest .cache .hypothesis .ruff_cache build dist paper site
