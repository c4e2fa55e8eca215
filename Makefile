# Everything that a user or a developer runs. Needs python3 (3.11 or newer) with venv and pip.

PYTHON ?= python3
PIP_FLAGS = -qq --disable-pip-version-check
DEMO = .venv
DEV = .venv-dev

.DEFAULT_GOAL := help
.PHONY: help demo test lint check bench vectors paper

help:  ## list these verbs
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/make \1\t\2/p' Makefile

demo: $(DEMO)/installed  ## install into .venv, compress and decompress samples/, print a table
	@$(DEMO)/bin/python samples/demo.py demo-out

test: $(DEV)/installed  ## run the tests in an environment of their own
	@$(DEV)/bin/python -m pytest -q -n 2

lint: $(DEV)/installed  ## ruff: rules and format
	@$(DEV)/bin/ruff check .
	@$(DEV)/bin/ruff format --check .

check: lint  ## lint, and mypy strict
	@$(DEV)/bin/mypy

bench: $(DEV)/bench  ## rate-distortion and speed, into benchmarks/results/ (needs CSCODEC_DATA)
	@$(DEV)/bin/python benchmarks/rate_distortion.py
	@$(DEV)/bin/python benchmarks/speed.py

vectors: $(DEV)/installed  ## write missing test vectors; existing ones are never overwritten
	@$(DEV)/bin/python tests/vectors/make.py

paper: $(DEV)/bench  ## the paper's tables and figures, into docs/ (needs CSCODEC_DATA)
	@$(DEV)/bin/python benchmarks/paper.py

$(DEMO)/installed: pyproject.toml
	$(call environment,$(DEMO),.)

$(DEV)/installed: pyproject.toml
	$(call environment,$(DEV),.[dev])

$(DEV)/bench: $(DEV)/installed
	@echo "installing what the benchmarks compare with" >&2
	@$(DEV)/bin/python -m pip install $(PIP_FLAGS) -e '.[dev,bench]'
	@touch $@

# environment FOLDER WHAT: a fresh virtual environment with the package installed in place.
define environment
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "cscodec needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) --version 2>&1)." \
	    "Name another: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@echo "installing into $(1) (once)" >&2
	@$(PYTHON) -m venv --clear $(1)
	@$(1)/bin/python -m pip install $(PIP_FLAGS) -e '$(2)'
	@touch $@
endef
