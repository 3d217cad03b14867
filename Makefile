PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help install demo test torture race race-quick race-work robust-race reproduce docs lint format clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1	\2/p' $(MAKEFILE_LIST)

install: $(STAMP) ## create .venv with the package (editable) and its development tools

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q -c constraints.txt -e ".[dev]"
	touch $@

demo: install ## digits with ruined rows: plain PCA against robust, a table and an HTML report in results/
	$(BIN)/dualpca demo -o results --force

# Each pytest worker keeps to one BLAS thread, so that two workers do not compete for the cores.
test: export OMP_NUM_THREADS := 1
test: export OPENBLAS_NUM_THREADS := 1
test: export MKL_NUM_THREADS := 1
test: install ## run the tests and doctests; ARGS="-k duality" is passed on to pytest
	$(BIN)/python -m pytest -n 2 $(ARGS)

torture: export OMP_NUM_THREADS := 1
torture: export OPENBLAS_NUM_THREADS := 1
torture: export MKL_NUM_THREADS := 1
torture: install ## difficult matrices x estimators x solvers, a large sample; 30 minutes at most, TORTURE_SEED=n repeats one
	TORTURE=1 timeout --signal=INT 1800 $(BIN)/python -m pytest -n 2 -q -r f tests/torture $(ARGS)

race: install ## the race against peers, about 40 minutes; needs nothing else running on the machine
	$(BIN)/python -m pip install -q -c constraints.txt -e ".[race]"
	$(BIN)/python -m benchmarks.race $(QUICK) $(ARGS)

race-quick: QUICK := --quick
race-quick: race ## a few cases of the race, float32, in five minutes

race-work: install ## products with the data to a target, counted; writes results/work.md
	$(BIN)/python -m benchmarks.work $(ARGS)

# robpy asks for an older scikit-learn than it needs; the comparison puts back what it misses.
robust-race: install ## robust PCA beside its peers, about an hour; rrcov where Rscript has it
	$(BIN)/python -m pip install -q -c constraints.txt -e ".[robust-race]"
	-$(BIN)/python -m pip install -q --no-deps "robpy>=0.0.6"
	$(BIN)/python -m experiments.robust_peers $(ARGS)

reproduce: install ## the paper's tables and figures, about half an hour alone on the machine; ARGS="--quick"
	$(BIN)/dualpca reproduce all $(ARGS)

docs: install ## build the site, gallery included, in docs/_build/html; no warning is let through
	rm -rf docs/generated/api
	$(BIN)/python -m sphinx -q -W --keep-going -b html docs docs/_build/html $(ARGS)
	@echo "site: docs/_build/html/index.html"

lint: install ## ruff check, ruff format --check, mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: install ## let ruff sort the imports, fix what it can and format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean: ## remove caches and build outputs (.venv and results/ stay)
	rm -rf build dist docs/_build docs/generated .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -path ./$(VENV) -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +
