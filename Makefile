# Everything a newcomer, CI and a release need. `make help` lists it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed# hardsight and torch: enough for the demo
TOOLS := $(VENV)/.tools# and what the tests need

.PHONY: help demo test browser check nightly bench dist clean

help:  ## list the tasks
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/'

demo: $(INSTALLED)  ## set up and run the main job on built-in digits
	$(BIN)/hardsight demo -o hardsight-demo

test: $(TOOLS) browser check  ## set up, check and run the tests
	$(BIN)/python -m pytest -m "not slow" -n auto --dist loadfile

# The explorer's tests drive a real Chromium; where it cannot be installed they skip and say so.
browser:
	@command -v chromium >/dev/null || command -v google-chrome >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null \
	  && apt-get update -q && apt-get install -q -y --no-install-recommends chromium; } || echo "no Chromium: browser tests will be skipped"

check: $(TOOLS)  ## format, lint and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

nightly: $(TOOLS) browser  ## all tests, also the long ones; property tests draw new examples
	$(BIN)/python -m pip install -q -c constraints.txt --group nightly
	$(BIN)/python -m pytest --hypothesis-profile=nightly

bench: $(TOOLS)  ## our speed against the limit and the peers
	$(BIN)/python -m pip install -q --group bench -c constraints.txt
	$(BIN)/hardsight bench score
	$(BIN)/hardsight bench extract
	$(BIN)/hardsight bench explore

dist: $(TOOLS)  ## build the wheel and check it
	rm -rf dist
	$(BIN)/python -m build --outdir dist .
	$(BIN)/twine check --strict dist/*

clean:  ## remove what make made
	rm -rf $(VENV) dist hardsight-demo

$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --upgrade pip -c constraints.txt
	$(BIN)/python -m pip install -q -c constraints.txt torch
	$(BIN)/python -m pip install -q -c constraints.txt -e '.[torch]'
	touch $@

# timm and torchvision ask for builds of torch that a machine without a GPU does not want: without their dependencies.
$(TOOLS): $(INSTALLED)
	$(BIN)/python -m pip install -q -c constraints.txt --group test --group models
	$(BIN)/python -m pip install -q -c constraints.txt --no-deps timm torchvision
	touch $@
