# make demo | test | check | bench | fuzz | docs: each sets up .venv by itself the first time.
# Longer than a test run: make sim | torture | bench-log
.PHONY: sim torture bench-log demo test check bench fuzz docs format clean
PYTHON ?= python3
BIN := .venv/bin

.venv/ready: pyproject.toml setup.py $(wildcard src/ottla/records/kernel*.py)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Ottla needs Python 3.11 or newer: call make PYTHON=/path/to/python3.11")'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --group dev --editable ".[all]"
	touch $@

demo: .venv/ready
	$(BIN)/python -m examples.flights

test: .venv/ready
	$(BIN)/python -m pytest

check: .venv/ready
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -q -p no:randomly tests/tree

bench: .venv/ready
	$(BIN)/python -m bench

# FUZZ_SECONDS=60 for all families together; FUZZ_INPUTS=5000000 for so many of each, however long that takes.
fuzz: .venv/ready
	$(BIN)/python -m tests.fuzz

sim: .venv/ready
	$(BIN)/python -m ottla.sim.crashes --points 20000

torture: .venv/ready
	$(BIN)/python -m tests.torture.kills --rounds 200

bench-log: .venv/ready
	$(BIN)/python -m bench.log

docs: .venv/ready
	$(BIN)/python -c 'from ottla.broker.settings.docs import page; print(page(), end="")' > docs/settings.md

format: .venv/ready
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf .venv build dist out src/*.egg-info src/ottla/records/*.so src/ottla/records/*.c
