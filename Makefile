# make demo | quick | test | full | check | bench | fuzz | docs: each sets up .venv by itself the first time.
# Tests of one kind, long ones and all: make test-java | test-spark | test-cluster | test-interop | test-sim | test-slow | test-full
# Longer than a test run: make fuzz-live | races | clients-elsewhere | sim | bitrot | soak | siege | suites | asan, and
# make torture | torture-power | torture-groups | torture-clients | torture-threads | torture-transactions | torture-moves | torture-pipelines | torture-cluster |
# torture-07 | torture-spark | torture-shares; measurements of one part alone: make bench-log | bench-wire | bench-fetch-sessions | bench-quotas |
# bench-commands | bench-journal | bench-pauses | bench-kcat | bench-clients | bench-connections | bench-console | bench-cluster | bench-07
.PHONY: demo quick test full lint check bench fuzz fuzz-live races clients-elsewhere sim bitrot soak siege suites asan docs format clean
.PHONY: torture torture-power torture-groups torture-clients torture-threads torture-transactions torture-moves torture-pipelines
.PHONY: torture-cluster torture-07 torture-spark torture-shares
.PHONY: bench-log bench-journal bench-pauses bench-wire bench-fetch-sessions bench-quotas bench-commands bench-kcat bench-clients
.PHONY: bench-connections bench-console bench-cluster bench-07 bench-streams
# Each broker that a test starts imports some 600 modules: they are compiled once, also where an image says that nothing is kept.
unexport PYTHONDONTWRITEBYTECODE
PYTHON ?= python3
BIN := .venv/bin

.venv/ready: pyproject.toml setup.py $(wildcard src/ottla/net/kernel*.py src/ottla/records/kernel*.py src/ottla/wire/codec/kernel*.py src/ottla/net/*.pxd src/ottla/records/*.pxd src/ottla/wire/codec/*.pxd)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Ottla needs Python 3.11 or newer: call make PYTHON=/path/to/python3.11")'
	@echo "Setting up .venv, which takes some minutes the first time: Ottla with its compiled kernels, and about 60 packages for the"
	@echo "tests, the checks and the demo; 700 MB are fetched, 456 MB of which are PySpark."
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade "pip>=25.1"
	@$(BIN)/python tools/install.py --group dev --editable ".[all]"
	@touch $@

demo: .venv/ready
	$(BIN)/python -m examples.flights

# Under three minutes on two cores: what every change should pass before anything else is tried.
quick: lint
	$(BIN)/python -m tools.run_tests quick

# Under fifteen minutes: everything that is claimed, with one test of each kind that needs Java, ZooKeeper or Spark.
test: .venv/ready
	$(BIN)/python -m tools.run_tests

# All tests: more than half an hour. SHARE=3/8 runs a share of those that `make test` leaves out, SHARE=today the one whose day it is;
# with FULL_SECONDS=600 no test begins that does not end by then.
full: .venv/ready
	$(BIN)/python -m tools.run_tests full $(if $(SHARE),--share $(SHARE)) $(if $(FULL_SECONDS),--seconds $(FULL_SECONDS))

test-%: .venv/ready
	$(BIN)/python -m tools.run_tests full -m "$*"

lint: .venv/ready
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

check: lint
	$(BIN)/python -m pytest -q -p no:randomly tests/tree

bench: .venv/ready
	$(BIN)/python -m bench

# FUZZ_SECONDS=60 for all families together; FUZZ_INPUTS=5000000 for so many of each, however long that takes.
fuzz: .venv/ready
	$(BIN)/python -m tests.fuzz

# Extreme requests to running brokers: FUZZ_SECONDS=1800 unless given.
fuzz-live: .venv/ready
	$(BIN)/python -m tests.fuzz.live

# Clients that threads share, each test for RACE_SECONDS, while the interpreter changes threads all the time.
RACE_SECONDS ?= 60
races: .venv/ready
	OTTLA_RACE_SECONDS=$(RACE_SECONDS) $(BIN)/python -m pytest -q --timeout 600 tests/client/test_shared_clients.py

# The tests of Ottla's clients on Apache Kafka 0.8.2 to 4.3, and on a cluster of it whose brokers are killed: at most 70 minutes.
clients-elsewhere: .venv/ready
	$(BIN)/python -m tests.client.elsewhere --seconds 600

sim: .venv/ready
	$(BIN)/python -m tests.sim.crashes --points 20000
	$(BIN)/python -m tests.sim.journals --points 50000 --seconds 900
	$(BIN)/python -m tests.sim.followers --seeds 2000
	$(BIN)/python -m tests.sim.groups --seeds 5000
	$(BIN)/python -m tests.sim.groups --kind streams --seeds 5000
	$(BIN)/python -m tests.sim.share_groups --seeds 5000
	$(BIN)/python -m tests.sim.transactions --seeds 1000
	$(BIN)/python -m tests.sim.share_states --seeds 10000 --seconds 3600
	$(BIN)/python -m tests.sim.brokers --seeds 500
	$(BIN)/python -m tests.sim.shares --seeds 10000
	$(BIN)/python -m tests.sim.pipelines --seeds 10000
	$(BIN)/python -m tests.sim.consumers07 --seeds 10000 --seconds 1800
	$(BIN)/python -m tests.sim.clients --seeds 10000 --seconds 7200
	$(BIN)/python -m tests.sim.clusters --seeds 10000 --seconds 7200

# Each kind of damage to each kind of file; BITROT_EVERY=1 for all cases instead of a share of some thousands.
BITROT_EVERY ?= 8
bitrot: .venv/ready
	$(BIN)/python -m tests.bitrot --every $(BITROT_EVERY)

# SOAK_MINUTES=30 unless given; SOAK_SEED=7 to have the same things happen at the same times again.
SOAK_MINUTES ?= 30
soak: .venv/ready
	$(BIN)/python -m tests.torture.soak --minutes $(SOAK_MINUTES) $(if $(SOAK_SEED),--seed $(SOAK_SEED))

# SIEGE_SECONDS=20 for each attack, on Ottla and on Apache Kafka; of a few alone: python -m tests.siege --only NAME --no-kafka
SIEGE_SECONDS ?= 20
siege: .venv/ready
	$(BIN)/python -m tests.siege --seconds $(SIEGE_SECONDS)

torture: .venv/ready
	$(BIN)/python -m tests.torture.kills --rounds 120
	$(BIN)/python -m tests.torture.kills --rounds 50 --seed 1 --journal-bytes 65536
	$(BIN)/python -m tests.torture.kills --rounds 30 --seed 2 --journal-bytes 67108864

# As root on Linux: the page cache is dropped after each kill, and a disk of the broker's own loses power.
torture-power: .venv/ready
	$(BIN)/python -m tests.torture.kills --rounds 50 --drop-caches
	$(BIN)/python -m tests.torture.power_cuts --rounds 50
	$(BIN)/python -m tests.torture.power_cuts --rounds 30 --seed 1 --journal-bytes 65536
	$(BIN)/python -m tests.torture.power_cuts --rounds 20 --seed 2 --journal-bytes 67108864

torture-groups: .venv/ready
	$(BIN)/python -m tests.torture.groups --seconds 60 --journal-bytes 65536
	$(BIN)/python -m tests.torture.groups --seconds 60 --mixed --journal-bytes 67108864

# Eight threads that call, close, wake up and fork blocking clients in random order; TORTURE_SECONDS=600 unless given.
TORTURE_SECONDS ?= 600
torture-threads: .venv/ready
	$(BIN)/python -m tests.torture.threads --seconds $(TORTURE_SECONDS)

# Broker and copiers killed in turn, with a group of either protocol: some ten minutes on two cores with nothing else to do.
torture-transactions: .venv/ready
	$(BIN)/python -m tests.torture.transactions --rounds 200 --journal-bytes 65536
	$(BIN)/python -m tests.torture.transactions --rounds 40 --protocol consumer --journal-bytes 67108864

# Members of a share group killed in turn with their broker, then with one of three: some twenty minutes.
torture-shares: .venv/ready
	$(BIN)/python -m tests.torture.shares --rounds 100 --seconds 600
	$(BIN)/python -m tests.torture.shares --rounds 100 --seconds 600 --brokers 3

# Ottla's own producers, members of groups of both protocols and copiers with transactions, killed in turn with their broker.
torture-clients: .venv/ready
	$(BIN)/python -m tests.torture.clients --kills 200 --seconds 900

# A replica that moves between log directories under load, whose broker is killed in the middle: some five minutes.
torture-moves: .venv/ready
	$(BIN)/python -m tests.torture.replica_moves --kills 50

# Each of archive, replay and mirror killed ten times: some twelve minutes on two cores with nothing else to do.
torture-pipelines: .venv/ready
	$(BIN)/python -m tests.torture.pipelines --kills 10

# Brokers over a real ZooKeeper, killed, paused and cut off, and replaced by others one by one: it takes some two hours. Java is needed;
# as root disks are filled and packets lost too.
torture-cluster: .venv/ready
	$(BIN)/python -m tests.torture.cluster --faults 200 --copiers confluent-kafka,java
	$(BIN)/python -m tests.torture.cluster --faults 40 --members ottla,3.9.1,ottla --copiers confluent-kafka
	$(BIN)/python -m tests.torture.cluster --faults 40 --members ottla,2.8.2,3.9.1 --copiers confluent-kafka
	$(BIN)/python -m tests.torture.replace_cluster --versions 2.8,3.9
	$(BIN)/python -m tests.torture.replace_cluster
	$(BIN)/python -m tests.torture.replace_cluster --from 2.8.2
	$(BIN)/python -m pytest -n0 -p no:randomly tests/cluster/test_pair.py --kafka-release=2.8.2
	$(BIN)/python -m pytest -n0 -p no:randomly tests/cluster/test_pair.py --kafka-release=3.9.1
	$(BIN)/python -m pytest -n0 -p no:randomly tests/cluster/test_java_programs.py --java-programs

# A topic of clients of Kafka 0.7 and of today whose broker is killed, forgets and stores otherwise: some twenty minutes.
torture-07: .venv/ready
	$(BIN)/python -m tests.torture.positions07 --rounds 400

# A query on a cluster of executors, its processes and the broker killed at random and at each step of the exactly-once sink.
torture-spark: .venv/ready
	$(BIN)/python -m tests.torture.spark --kills 100
	$(BIN)/python -m tests.torture.spark --kills 30 --two-phase
	$(BIN)/python -m tests.torture.spark --kills 30 --peer apache-kafka

# What other clients test themselves with: Python's, Go's (with Go installed), librdkafka's (with a C++ compiler and npm) and Node's (npm).
# The tools of an older Apache Kafka run on a cluster. aiokafka's come from a checkout: AIOKAFKA=/path/to/aiokafka make suites
suites: .venv/ready
	$(BIN)/python -m tests.suites.run kafka-python
	$(if $(AIOKAFKA),$(BIN)/python -m tests.suites.run aiokafka --checkout $(AIOKAFKA),@echo "aiokafka is left out: set AIOKAFKA to a checkout")
	$(BIN)/python -m tests.suites.run --where-possible franz-go kafka-go sarama librdkafka node-rdkafka \
		franz-go-cluster sarama-cluster librdkafka-cluster
	$(BIN)/python -m pytest -q -p no:randomly tests/cluster/test_apache_tools.py --tools 3.9.1

bench-log: .venv/ready
	$(BIN)/python -m bench.log

# JOURNAL="groups bulk" for these parts alone.
bench-journal: .venv/ready
	$(BIN)/python -m bench.journal $(JOURNAL)

bench-pauses: .venv/ready
	$(BIN)/python -m bench.pauses

bench-wire: .venv/ready
	$(BIN)/python -m bench.wire

bench-quotas: .venv/ready
	$(BIN)/python -m bench.quotas

bench-commands: .venv/ready
	$(BIN)/python -m bench.commands

bench-console: .venv/ready
	$(BIN)/python -m bench.console

bench-connections: .venv/ready
	$(BIN)/python -m bench.connections --kafka

# Three brokers of Ottla, and three of Apache Kafka 3.9.1, over a ZooKeeper each in turn: Java is needed.
bench-cluster: .venv/ready
	$(BIN)/python -m bench.cluster

bench-07: .venv/ready
	$(BIN)/python -m bench.kafka07

bench-kcat: .venv/ready
	$(BIN)/python -m bench.kcat

# Ottla's clients beside those of others, for a quarter of an hour at most: also a part of `make bench`.
bench-clients: .venv/ready
	$(BIN)/python -m bench.clients

# A word count of Kafka Streams beside Apache Kafka; needs Java and Maven.
bench-streams: .venv/ready
	$(BIN)/python -m bench.streams

bench-fetch-sessions: .venv/ready
	$(BIN)/python -m bench.fetch_sessions

# The tests of records and wire on kernels built with gcc's AddressSanitizer; Python takes each buffer from malloc, so that it has guards.
ASAN_TESTS := tests/unit/records $(patsubst %,tests/unit/wire/test_%.py,kernel malformed encoding round_trips)
asan: .venv/ready
	CFLAGS="-fsanitize=address -fno-omit-frame-pointer -g" LDFLAGS=-fsanitize=address \
		$(BIN)/python setup.py -q build --build-lib build/asan --build-temp build/asan-objects
	LD_PRELOAD=$$(gcc -print-file-name=libasan.so) ASAN_OPTIONS=detect_leaks=0 PYTHONMALLOC=malloc PYTHONPATH=build/asan \
		$(BIN)/python -m pytest -q -o pythonpath=. -k "not generated" --timeout 600 $(ASAN_TESTS)

docs: .venv/ready
	$(BIN)/python -m tools.settings_page > docs/settings.md
	$(BIN)/python -m tools.groups_page
	$(BIN)/python -m tools.metrics_page
	$(BIN)/python -m tools.grafana_board
	$(BIN)/python -m tools.moving_pages
	$(BIN)/python -m tools.keywords
	$(BIN)/python -m tools.machines_page
	$(BIN)/python -m tools.blocking
	$(BIN)/python -m tools.man_page

format: .venv/ready
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf .venv build dist out src/*.egg-info src/ottla/*/*.so src/ottla/*/*.c src/ottla/wire/codec/*.so src/ottla/wire/codec/*.c
