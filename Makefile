# make demo | test | check | bench | fuzz | docs: each sets up .venv by itself the first time.
# Longer than a test run: make sim | torture | asan; of one part alone: make bench-log | bench-wire
.PHONY: sim torture asan bench-log bench-wire demo test check bench fuzz docs format clean
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
	$(BIN)/python -m pytest --numprocesses 2 --dist loadfile

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

bench-wire: .venv/ready
	$(BIN)/python -m bench.wire

# The tests of records on kernels built with gcc's AddressSanitizer; Python takes each buffer from malloc, so that it has guards.
asan: .venv/ready
	CFLAGS="-fsanitize=address -fno-omit-frame-pointer -g" LDFLAGS=-fsanitize=address \
		$(BIN)/python setup.py -q build --build-lib build/asan --build-temp build/asan-objects
	LD_PRELOAD=$$(gcc -print-file-name=libasan.so) ASAN_OPTIONS=detect_leaks=0 PYTHONMALLOC=malloc PYTHONPATH=build/asan \
		$(BIN)/python -m pytest -q -o pythonpath=. tests/unit/records

docs: .venv/ready
	$(BIN)/python -c 'from ottla.broker.settings.docs import page; print(page(), end="")' > docs/settings.md

format: .venv/ready
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf .venv build dist out src/*.egg-info src/ottla/records/*.so src/ottla/records/*.c
