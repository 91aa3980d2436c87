# Two commands set everything up on a fresh machine: `make demo` and `make test`.
# Nothing is installed outside .venv but system packages, and those only as root; otherwise the exact command is printed.
SHELL := /bin/sh
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
STAMP_DEV := $(VENV)/.installed-dev

.PHONY: docs man demo test test-all check types lint dev lock clean fault-matrix bench-smoke release bundle

# Exactly the versions that were tested, each file checked against its hash; busbw itself is linked from here. The locks are made anew by `make lock`.
# They are complete: with --no-deps no newer release of a dependency's extra is asked for.
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
$(STAMP): pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "busbw needs Python 3.11 or newer; set PYTHON=…")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { echo 'next: apt-get install -y python3-venv'; exit 1; }
	$(PIP) --no-deps --require-hashes -r requirements.lock
	$(PIP) --no-deps --no-build-isolation -e .
	@touch $@

$(STAMP_DEV): $(STAMP) requirements-dev.lock
	$(PIP) --no-deps --require-hashes -r requirements-dev.lock
	@touch $@

demo: $(STAMP)
	@BUSBW=$(BIN)/busbw PYTHON=$(BIN)/python sh tests/demo.sh

test: $(STAMP_DEV)
	@PYTHON=$(BIN)/python sh tests/all.sh

# The matrices and the long labs too: about twice as long.
test-all: $(STAMP_DEV)
	@PYTHON=$(BIN)/python sh tests/all.sh all

check: lint types

lint: $(STAMP_DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

# mypy does not follow an editable install of mapped folders: type-check an installed copy (docs/architecture.md).
types: $(STAMP_DEV)
	@rm -rf build/types build/lib
	@$(PIP) --no-deps --no-build-isolation --target build/types .
	MYPYPATH=build/types $(BIN)/mypy --strict -p busbw

# Every kind of fault in a lab, seed after seed: hours on a quiet machine. MATRIX='--minutes 60 --kinds rail-50,loss-5' bounds it; it goes on where it was.
fault-matrix: $(STAMP)
	$(BIN)/python tests/bench/fault_matrix.py $(MATRIX)

# Every bench in its smallest form, as root: some ten minutes on two idle CPUs. BENCH='read.py why.py' names some.
bench-smoke: $(STAMP_DEV)
	@$(BIN)/python tests/bench/smoke.py $(BENCH)

# The pages as a site that needs no network; a broken link fails. MkDocs has a place of its own.
DOCS := build/docs-tools
docs:
	@test -x $(DOCS)/bin/mkdocs || { $(PYTHON) -m venv $(DOCS) && $(DOCS)/bin/pip install --quiet --disable-pip-version-check mkdocs==1.6.1; }
	$(DOCS)/bin/mkdocs build --strict

# busbw.1 and one page for each command, from the command line's own parser: man -l build/man/busbw.1
man: $(STAMP)
	$(BIN)/python docs/tools/man.py build/man

# Wheel and sdist of the last commit in dist/, built clean, checked, with their sums; nothing is signed or published.
release: $(STAMP)
	$(BIN)/python tests/release.py packages dist

# For machines without a network: one tar with every wheel, hashes, licences and install.sh.
bundle: $(STAMP)
	$(BIN)/python tests/release.py airgapped build/airgapped

dev: $(STAMP_DEV)
	$(PIP) --no-deps --no-build-isolation -e . --config-settings editable_mode=strict

# The newest versions that pyproject.toml allows, with the hashes of their files for every platform.
lock: $(STAMP_DEV)
	$(PIP) uv
	$(LOCK) -o requirements.lock
	$(LOCK) --extra dev -o requirements-dev.lock
LOCK := echo 'setuptools>=77' | $(BIN)/uv pip compile pyproject.toml - --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate

clean:
	rm -rf build dist *.egg-info $(VENV) .pytest_cache .mypy_cache .ruff_cache artefacts
