# Two commands do all the set-up: `make demo` runs the main job, `make test` runs every check.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# One thread per process: two-thread products of small matrices are slower than one-thread ones.
export OMP_NUM_THREADS ?= 1

# The report is tested in a real browser; where there is none these tests are left out, and that is said.
CHROMIUM ?= $(shell command -v chromium || command -v chromium-browser || command -v google-chrome)
export CHROMIUM

.PHONY: demo test bench gallery lint install clean

demo: $(STAMP)
	$(BIN)/fedvls demo

test: $(STAMP) lint
ifeq ($(CHROMIUM),)
	@echo "No Chromium found: the tests of the report in a browser are LEFT OUT (install chromium and chromium-driver)."
	$(BIN)/python -m pytest -n auto -m 'not browser'
else
	$(BIN)/python -m pytest -n auto
endif

gallery: $(STAMP)
	$(BIN)/fedvls demo --out build/demo --gallery docs
	$(BIN)/python tests/browser/screenshots.py build/demo/report.html docs/images

# Engines, a plain loop and other programs on the same work; the others are installed on first use.
bench: $(STAMP)
	$(BIN)/fedvls bench --workload mnist-mlp --device cpu --rivals all --dtype float32,bf16 --json bench.json

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

install: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(None if sys.version_info >= (3, 11) else "fedvls needs Python 3.11 or newer; name one with: make PYTHON=/path/to/python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
