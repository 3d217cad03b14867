PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO := $(VENV)/.installed-demo
STAMP := $(VENV)/.installed
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help install demo test test-all test-busy test-native test-lowest torture coverage mutants audit dist race race-quick race-passes race-work robust-race cell-race stream-race reproduce docs lint format clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1	\2/p' $(MAKEFILE_LIST)

install: $(STAMP) ## create .venv with the package (editable) and its development tools

$(STAMP): pyproject.toml setup.py constraints.txt
	@echo "setting up $(VENV): the package and its development tools (2.4 GB, some minutes)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install -q -c constraints.txt -e ".[dev]"
	@touch $@ $(DEMO)

$(DEMO): pyproject.toml setup.py constraints.txt
	@echo "setting up $(VENV): the package and what its command line needs (0.7 GB, two minutes)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install -q -c constraints.txt -e ".[cli]"
	@touch $@

demo: $(DEMO) ## digits with ruined rows: plain PCA against robust, a table and an HTML report in results/
	@$(BIN)/dualpca demo -o results --force

# Each pytest worker keeps to one BLAS thread, so that two workers do not compete for the cores.
test test-all test-native test-lowest coverage torture: export OMP_NUM_THREADS := 1
test test-all test-native test-lowest coverage torture: export OPENBLAS_NUM_THREADS := 1
test test-all test-native test-lowest coverage torture: export MKL_NUM_THREADS := 1

MARKED := cluster or browser or experiments or torture or slow
test: install ## run the tests and doctests that are fast; ARGS="-k duality" is passed on to pytest
	$(BIN)/python -m pytest -n 2 -m "not ($(MARKED))" $(ARGS)

test-all: install ## run the other tests: clusters, a browser, experiments, torture, long fits
	$(BIN)/python -m pytest -n 2 -m "$(MARKED)" $(ARGS)

# The loops end where the tests end, fail or are interrupted.
SUITE ?= test
test-busy: install ## the tests beside two busy loops, on whose account none may fail; SUITE=test-all for the long ones
	@for loop in 1 2; do (while :; do :; done) & loops="$$loops $$!"; done; \
		trap "kill $$loops" EXIT; trap "exit 130" HUP INT TERM; $(MAKE) $(SUITE)

# The first part is what multiplies; the second builds the kernels once more, with checks of every access.
test-native: install ## the core tests without the C kernels, and the kernels under ASan and UBSan
	DUALPCA_NATIVE=0 $(BIN)/python -m pytest -n 2 -q -m "not ($(MARKED))" \
		tests/operators tests/solvers tests/linear tests/native $(ARGS)
	rm -rf build
	CFLAGS="-fsanitize=address,undefined -fno-sanitize-recover=undefined -g -O1" \
		$(BIN)/python setup.py -q build --build-lib build/sanitized
	LD_PRELOAD="$$(gcc -print-file-name=libasan.so) $$(gcc -print-file-name=libubsan.so)" ASAN_OPTIONS=detect_leaks=0 \
		PYTHONPATH=build/sanitized $(BIN)/python -m pytest -q tests/native -k "not environment" $(ARGS)

coverage: install ## branch coverage of src/ by all tests and doctests; fails below 95 %
	$(BIN)/python -m coverage erase
	$(BIN)/python -m coverage run -m pytest -n 2 -q $(ARGS)
	$(BIN)/python -m coverage combine -q
	$(BIN)/python -m coverage report

mutants: install ## mutation testing of functions/base.py and linalg.py; fails where less than 85 % are killed
	$(BIN)/python tests/mutants.py $(ARGS)

# Without torch, whose old wheels bring gigabytes of CUDA, without a browser, and without river, which needs
# a newer NumPy than we do. Old packages meet new
# ones below them there, which deprecate what they use: that is not ours to mend. Two tests are left out:
# pandas 2.2 does not read CSV to the last digit, and scikit-learn 1.6 takes operators for data frames.
LOWEST := .venv-lowest
LOWEST_TESTS := $(addprefix tests/,io linear/test_weights.py plots preprocessing pursuit estimators/test_reproducibility.py \
	kernels/test_features.py operators/test_columns.py operators/test_sources.py project/test_supply.py \
	report/test_report.py solvers/test_krylov.py)
$(LOWEST)/.installed: pyproject.toml .ci/lowest.py
	rm -rf $(LOWEST)
	$(PYTHON) -m venv $(LOWEST)
	$(PYTHON) .ci/lowest.py test -torch -playwright -river > $(LOWEST)/pins.txt
	$(LOWEST)/bin/python -m pip install -q --only-binary :all: -r $(LOWEST)/pins.txt
	$(LOWEST)/bin/python -m pip install -q --no-deps -e .
	touch $@

test-lowest: $(LOWEST)/.installed ## some of the tests with every dependency at the lower bound of pyproject.toml
	$(LOWEST)/bin/python -m pytest -n 2 -q -W ignore::DeprecationWarning \
		--ignore tests/io/test_pandas_index.py \
		--deselect tests/io/test_tables_formats.py::test_blocks_are_one_table \
		--deselect tests/preprocessing/test_preprocessor.py::test_numpy_may_ask_for_all_rows $(LOWEST_TESTS) $(ARGS)

torture: install ## numbers, properties, faults, untrusted input: 30 minutes at most, tables in results/; TORTURE_SEED=n repeats one
	TORTURE=1 TORTURE_TABLE=results/torture.md timeout --signal=INT 1800 \
		$(BIN)/python -m pytest -n 2 -q -r f tests/torture $(ARGS)

# PRIMME is compiled once, in about four minutes. That may fail; the race then goes without it and says so.
race: install ## the race against peers, about 40 minutes; needs nothing else running on the machine
	$(BIN)/python -m pip install -q -c constraints.txt -e ".[race]"
	-$(BIN)/python -m benchmarks.install_primme
	$(BIN)/python -m benchmarks.race $(QUICK) $(ARGS)
	$(BIN)/python -m benchmarks.race_methods $(QUICK) $(ARGS)

race-quick: QUICK := --quick
race-quick: race ## a few cases of the race, float32, in five minutes

race-passes: install ## one sweep over the data, with and without the native kernels, beside the machine's gemm
	$(BIN)/python -m benchmarks.passes $(ARGS)

race-work: install ## products with the data to a target, counted; writes results/work.md
	$(BIN)/python -m benchmarks.work $(ARGS)

# robpy asks for an older scikit-learn than it needs; the comparison puts back what it misses.
robust-race: install ## robust PCA beside its peers, about an hour; rrcov where Rscript has it
	$(BIN)/python -m pip install -q -c constraints.txt -e ".[robust-race]"
	-$(BIN)/python -m pip install -q --no-deps "robpy>=0.0.6"
	$(BIN)/python -m experiments.robust_peers $(ARGS)
	$(BIN)/python -m experiments.robust_grid
	$(BIN)/python -m experiments.robust_clean
	-$(BIN)/python -m experiments.robust_adbench

# Where robustcov cannot be installed the race goes without it.
cell-race: install ## holes, wrong cells and bad rows beside peers, a quarter of an hour; cellWise and missMDA where Rscript has them
	-$(BIN)/python -m pip install -q --no-deps robustcov
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.cell_race $(ARGS)

stream-race: install ## streams with bad rows, that turn and that jump, beside ORPCA, GRASTA and IncrementalPCA; 10 minutes
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.stream_race $(ARGS)

reproduce: install ## the paper's tables and figures, 40 minutes alone on the machine; ARGS="--quick" or "--docs"
	$(BIN)/dualpca reproduce all $(ARGS)

docs: install ## build the site, gallery included, in docs/_build/html; no warning is let through
	rm -rf docs/generated/api
	$(BIN)/python -m sphinx -q -W --keep-going -b html docs docs/_build/html $(ARGS)
	@echo "site: docs/_build/html/index.html"

# Strict: an advisory service that does not answer for a package fails, where it otherwise passes.
audit: install ## known vulnerabilities of what .venv holds, by pip-audit; needs the network
	$(PYTHON) -m venv .venv-audit
	.venv-audit/bin/python -m pip install -q pip-audit
	$(BIN)/python -m pip freeze --exclude-editable | sed 's/+cpu$$//' > .venv-audit/frozen.txt
	.venv-audit/bin/pip-audit --strict --no-deps --disable-pip -r .venv-audit/frozen.txt $(ARGS)

dist: install ## build the wheel and the source distribution, and try the wheel in an environment of its own
	rm -rf dist
	$(BIN)/python -c "from setuptools import build_meta as b; b.build_wheel('dist'); b.build_sdist('dist')"
	$(PYTHON) -m venv dist/venv
	dist/venv/bin/python -m pip install -q dist/*.whl
	cd dist && venv/bin/python -c "import dualpca, numpy; dualpca.PCA(2).fit(numpy.eye(5))"
	cd dist && venv/bin/dualpca 2>&1 | grep "pip install 'dualpca\[cli\]'"
	rm -rf dist/venv

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
