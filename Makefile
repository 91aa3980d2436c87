# Two commands set everything up on a fresh machine: `make demo` and `make test`.
# Nothing is installed outside .venv but system packages, and those only as root; otherwise the exact command is printed.
SHELL := /bin/sh
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
STAMP_DEV := $(VENV)/.installed-dev

.PHONY: demo test check types lint dev clean fault-matrix

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "busbw needs Python 3.11 or newer; set PYTHON=…")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { echo 'next: apt-get install -y python3-venv'; exit 1; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	@touch $@

$(STAMP_DEV): $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@

demo: $(STAMP)
	@BUSBW=$(BIN)/busbw PYTHON=$(BIN)/python sh tests/demo.sh

test: $(STAMP_DEV)
	@PYTHON=$(BIN)/python sh tests/all.sh

check: lint types

lint: $(STAMP_DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

# mypy does not follow an editable install of mapped folders: type-check an installed copy (docs/architecture.md).
types: $(STAMP_DEV)
	@rm -rf build/types build/lib
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --target build/types .
	MYPYPATH=build/types $(BIN)/mypy --strict -p busbw

# Every kind of fault in a lab, seed after seed: hours on a quiet machine. MATRIX='--minutes 60 --kinds rail-50,loss-5' bounds it; it goes on where it was.
fault-matrix: $(STAMP)
	$(BIN)/python tests/bench/fault_matrix.py $(MATRIX)

dev: $(STAMP_DEV)
	$(BIN)/python -m pip install --quiet -e . --config-settings editable_mode=strict

clean:
	rm -rf build dist *.egg-info $(VENV) .pytest_cache .mypy_cache .ruff_cache artefacts
