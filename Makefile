# Everything that a user or a developer runs. Needs python3 (3.11 or newer) with venv and pip.

PYTHON ?= python3
PIP_FLAGS = -qq --disable-pip-version-check
DEMO = .venv
DEV = .venv-dev
# What machine code is made of. In a checkout it lies in cscodec/kernels/native.
SOURCES = pyproject.toml cscodec/layout.py $(wildcard cscodec/kernels/*.py building/*.py)
BUILD = $(DEV)/bin/python -m building.libraries

.DEFAULT_GOAL := help
.PHONY: help demo test lint check kernels bounds determinism faults fuzz soak wheel bench vectors snapshots paper missing

help:  ## list these verbs
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/make \1\t\2/p' Makefile

demo: $(DEMO)/installed  ## install into .venv, compress and decompress samples/, print a table
	@$(DEMO)/bin/python samples/demo.py demo-out

test: $(DEV)/installed  ## run the tests in an environment of their own
	@$(BUILD) --all --bounds
	@$(DEV)/bin/python -m pytest -q -n 2 --durations=15 --cov

lint: $(DEV)/installed  ## ruff: rules and format
	@$(DEV)/bin/ruff check .
	@$(DEV)/bin/ruff format --check .

check: lint  ## lint, and mypy strict
	@$(DEV)/bin/mypy

kernels: $(DEV)/installed  ## compile the kernels for this machine, if they have changed
	@$(BUILD)

bounds: $(DEV)/installed  ## run the tests of kernels, codec and damage with every index checked
	@$(BUILD) --bounds
	@CSCODEC_KERNELS=bounds $(DEV)/bin/python -m pytest -q -n 2 tests/test_kernels.py \
	  tests/test_codec.py tests/test_contexts.py tests/test_fuzz.py tests/test_golden.py \
	  tests/test_means.py tests/test_pursuit.py tests/test_restorer.py::TestKernels

determinism: $(DEV)/installed  ## hashes of files and pixels for every kind of processor and threads
	@$(BUILD) --all
	@$(DEV)/bin/python tests/vectors/determinism.py

faults: $(DEV)/installed  ## kill commands at, and fail, every call that writes (needs strace)
	@$(BUILD)
	@PYTHONPATH=. $(DEV)/bin/python tests/faults.py

fuzz: $(DEV)/installed  ## look for inputs that break a promise, for SECONDS=60
	@$(BUILD)
	@PYTHONPATH=tests $(DEV)/bin/python -m fuzz --seconds $(or $(SECONDS),60)

soak: $(DEV)/installed  ## 16 threads in 4 processes for SECONDS=600: the same bytes, flat memory
	@$(BUILD)
	@PYTHONPATH=. $(DEV)/bin/python tests/soak.py --seconds $(or $(SECONDS),600)

wheel: $(DEV)/installed  ## a wheel and an sdist, into dist/; PLATFORM=... for another system
	@CSCODEC_PLATFORM=$(or $(PLATFORM),$(shell $(BUILD) --name)) \
	  $(DEV)/bin/python -m build --outdir dist .

bench: $(DEV)/bench  ## rate-distortion and speed, into benchmarks/results/ (needs CSCODEC_DATA)
	@$(BUILD)
	@$(DEV)/bin/python benchmarks/rate_distortion.py
	@$(DEV)/bin/python benchmarks/speed.py

vectors: $(DEV)/installed  ## write missing test vectors; existing ones are never overwritten
	@$(DEV)/bin/python tests/vectors/make.py

snapshots: $(DEV)/installed  ## renew what encoder and decoders are held against, on purpose
	@$(DEV)/bin/python tests/vectors/make.py --renew-snapshots

paper: $(DEV)/bench  ## the paper's tables and figures, into docs/ (needs CSCODEC_DATA)
	@$(DEV)/bin/python benchmarks/paper.py

$(DEMO)/installed: $(SOURCES) $(if $(wildcard cscodec/kernels/native/*),,missing)
	$(call environment,$(DEMO),.)

$(DEV)/installed: pyproject.toml
	$(call environment,$(DEV),.[dev])

$(DEV)/bench: $(DEV)/installed
	@echo "installing what the benchmarks compare with" >&2
	@$(DEV)/bin/python -m pip install $(PIP_FLAGS) -e '.[dev,bench]'
	@touch $@

# environment FOLDER WHAT: a virtual environment with the package installed in place.
define environment
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "cscodec needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) --version 2>&1)." \
	    "Name another: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@echo "installing into $(1) (once, and when kernels have changed)" >&2
	@test -x $(1)/bin/python || $(PYTHON) -m venv $(1)
	@$(1)/bin/python -m pip install $(PIP_FLAGS) -e '$(2)'
	@touch $@
endef
