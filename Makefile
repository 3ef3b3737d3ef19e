# Two commands work alone on a fresh machine: `make demo` and `make test`.
# Both make their own virtual environment in .venv and install what they need, and no more.

PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed
DEMO_INSTALLED := .venv/.demo-installed
# Hundreds of processes import the same modules: keep their bytecode, whatever the machine says.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help install demo test pytest types lint imports docs coverage slow floors rates paper headline posterior bench bench-peers figures clean

help:
	@echo "make demo    plan a schedule, compare policies that learn, and write a report of it"
	@echo "make test    tests, types, lint, imports, wheel, docs: what gates a change, but for coverage;"
	@echo "             prints what each step took and the slowest tests"
	@echo "make coverage  fail below 95 % of lines and branches of core and plugins"
	@echo "make slow    the statistical and scale checks that are too slow for every change"
	@echo "make floors  install the lowest versions that pyproject.toml allows, and run quick tests"
	@echo "make rates   measure how regret grows in every regime, and write docs/rates.md; and what"
	@echo "             rank-one and auto lose, in docs/policies.md"
	@echo "make paper   reproduce the paper's figures and table, and write docs/paper.md"
	@echo "make headline  play README's comparison, and write its table and chart"
	@echo "make posterior  compare the policy posterior with the paper's, and write docs/posterior.md"
	@echo "make bench   speed, as a table of ratios against C (needs gcc); bench-peers: against peers"
	@echo "make docs    build the documentation site into site/; figures: draw its pictures anew"
	@echo "make clean   remove the virtual environment and everything that was built"

# Bytecode is made of what is imported, at the first import, not of all that is installed.
$(INSTALLED): pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --no-compile --editable '.[dev]'
	touch $@ $(DEMO_INSTALLED)

# A report needs charts, but none of the tools of development.
$(DEMO_INSTALLED): pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --no-compile --editable '.[report]'
	touch $@

install: $(INSTALLED)

# A story that fits on one screen: the toy, its best schedule, who finds it, and the report.
demo: $(DEMO_INSTALLED)
	@echo "Two ads, a toy: click-bait pays 0.9 and wears people out, quality pays 0.3."
	@$(BIN)/bdes plan --r 0.9,0.3 --b 0.1,1 --lam 0.3 -T 100000 \
	  | sed -n 's/^schedule */Toy schedule that is best, if all is known: /p'
	@$(BIN)/bdes run examples/demo.toml --report

test: install
	$(BIN)/python .ci/gate.py

pytest: install
	$(BIN)/pytest -n 2 --dist worksteal

types: install
	$(BIN)/mypy

lint: install
	$(BIN)/ruff check
	$(BIN)/ruff format --check

imports: install
	$(BIN)/lint-imports

docs: install
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

# Lines inside compiled loops cannot be traced: their tests run again, interpreted.
BOUNDS := tests/simulation/test_crowd_benchmark.py
INTERPRETED := tests/model tests/simulation tests/plugins/noise tests/fitting/test_likelihood.py \
  --deselect tests/simulation/test_crowd.py::test_memory_does_not_grow_with_visits \
  --deselect '$(BOUNDS)::test_values_are_what_following_the_table_earns[10000-' \
  --deselect $(BOUNDS)::test_nobody_earns_more_than_the_clairvoyant \
  --deselect $(BOUNDS)::test_clairvoyants_bound_is_the_optimum_of_one_audience \
  --deselect $(BOUNDS)::test_bounds_go_on_where_they_are_no_more_computed \
  tests/plugins/planners/test_exact.py tests/plugins/planners/test_blocks.py \
  tests/plugins/policies/test_fused.py \
  tests/fitting/test_drift.py::test_unknown_rewards_move_the_drift_on \
  tests/fitting/test_multiplier.py::test_score_is_the_gradient \
  tests/fitting/test_randomisation.py::test_statistic_is_the_score_by_regression \
  tests/fitting/test_randomisation.py::test_arms_are_permuted_within_blocks

coverage: install
	rm -f .coverage .coverage.*
	$(BIN)/coverage run -m pytest -n 2 --dist worksteal -m 'not slow and not packaging' --quiet
	NUMBA_DISABLE_JIT=1 $(BIN)/coverage run -m pytest --quiet $(INTERPRETED)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

slow: install
	$(BIN)/pytest -m slow

# The lowest versions of all that pyproject.toml names: a bound that does not work is found here.
FLOORS := .venv-floors
floors: install
	rm -rf $(FLOORS)
	$(PYTHON) -m venv --without-pip $(FLOORS)
	$(BIN)/uv pip install --quiet --python $(FLOORS)/bin/python --resolution lowest-direct \
	  --editable '.[dev]'
	NUMBA_CACHE_DIR=$(FLOORS)/numba PYTHONPYCACHEPREFIX=$(FLOORS)/bytecode \
	  $(FLOORS)/bin/python -m pytest --quiet -p no:cacheprovider $(QUICK)

QUICK := tests/cli tests/internal tests/plugin tests/experiment/test_file.py \
  tests/experiment/test_arms.py tests/fitting/test_readers.py tests/fitting/test_log_sources.py tests/report/test_commands.py

rates: install
	$(BIN)/python -m studies.rates
	$(BIN)/python -m studies.rank_one
	$(BIN)/python -m studies.auto_loss
	$(BIN)/pytest -m rates

paper: install
	$(BIN)/python -m studies.paper.reproduce

headline: install
	$(BIN)/bdes run examples/headline/experiment.toml
	$(BIN)/bdes show headline --format markdown | $(BIN)/python -m studies.pages README.md headline
	$(BIN)/bdes plot headline --chart share --out docs/img/headline.svg

posterior: install
	$(BIN)/python -m studies.posterior.measure

bench: install
	$(BIN)/python -m benchmarks.simulation
	$(BIN)/python -m benchmarks.policies
	$(BIN)/python -m benchmarks.planners
	$(BIN)/python -m benchmarks.runs
	$(BIN)/python -m benchmarks.fitting
	$(BIN)/python -m benchmarks.cold_start
	$(BIN)/python -m benchmarks.live
	$(BIN)/python -m benchmarks.journals

bench-peers: install
	$(BIN)/python -m benchmarks.peers

figures: install
	$(BIN)/python -m docs.figures
	$(BIN)/python -m docs.console_picture

clean:
	rm -rf .venv .venv-floors .venv-peers .coverage* build dist site .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
