"""`make torture-threads`: eight threads call everything that blocking clients have, in random order, while clients close and fork.

    python -m tests.torture.threads --seconds 600

The threads share producers, a transactional producer and an admin client, and each has consumers of its own, which the others wake
up. The interpreter changes threads all the time. Shared clients are closed by any thread and replaced. Some calls fork: the child
must get `Closed` from each client, and must not hang. At the end:

- no call raised another exception than the documented ones, and no call took longer than `STUCK_S`;
- each delivery has an outcome, and each acknowledged record is in its topic once;
- no group has committed an offset beyond the records that its members were given;
- no thread and no connection is left over.
"""

from __future__ import annotations

import argparse
import faulthandler
import gc
import os
import random
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import ottla
from ottla.testing.process import BrokerProcess

THREADS = 8
PARTITIONS = 6
GROUPS = 3
BURST = 200
"""The most records that one step sends."""
MOST_RECORDS = 2_000_000
"""The number of records after which a run only repeats its other calls, so that the check at the end stays short."""
STUCK_S = 90.0
"""No call is allowed to take longer: each has a time limit of its own well below."""
FORK_S = 20.0
PLAIN, IN_TRANSACTIONS, CREATED = "storm-plain", "storm-transactions", "storm-created"
DOCUMENTED = (
    ottla.Closed,
    ottla.TimedOut,  # and FlushTimedOut
    ottla.Purged,
    ottla.WokenUp,
    ottla.DeliveryFailed,
    ottla.TransactionError,  # a thread that sends between the transactions of another
    ottla.CommitFailed,
)
UNSENT, ACKNOWLEDGED, FAILED, ABORTED = range(4)


@dataclass
class Storm:
    """What happened, and what was wrong."""

    calls: Counter[str] = field(default_factory=Counter)
    raised: Counter[str] = field(default_factory=Counter)
    sent: int = 0
    acknowledged: int = 0
    forks: int = 0
    faults: list[str] = field(default_factory=list)


class Ledger:
    """The outcome of each record of one thread. A record's value is the thread's number, a colon, and the record's number."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.outcomes = bytearray()
        self.waiting: list[tuple[int, ottla.Delivery]] = []

    def next_value(self) -> bytes:
        self.outcomes.append(UNSENT)
        return f"{self.name}:{len(self.outcomes) - 1}".encode()

    def sent(self, delivery: ottla.Delivery) -> None:
        self.waiting.append((len(self.outcomes) - 1, delivery))

    def settle(self, faults: list[str], *, all_of_them: bool = False) -> None:
        """Note the outcomes of finished deliveries; with `all_of_them`, a delivery without an outcome is a fault."""
        left = []
        for number, delivery in self.waiting:
            if not delivery.done():
                left.append((number, delivery))
                continue
            try:
                delivery.result(0)
                self.outcomes[number] = ACKNOWLEDGED
            except ottla.KafkaError:
                self.outcomes[number] = FAILED
        self.waiting = left
        if all_of_them and left:
            faults.append(f"{len(left)} deliveries of thread {self.name} have no outcome after their producers were closed")


class Slot:
    """A client that threads share. Any thread can close it and put another in its place."""

    def __init__(self, make: Callable[[], ottla.Producer | ottla.Admin]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self.client = make()

    def replace(self) -> None:
        client = self.client
        with self._lock:
            if self.client is client:
                self.client = self._make()
        with suppress(*DOCUMENTED):
            client.close()


class Caller(threading.Thread):
    """One of the threads: it makes random calls until the time is up."""

    def __init__(self, number: int, world: World, seed: int) -> None:
        super().__init__(name=f"storm-{number}", daemon=True)
        self.number = number
        self.world = world
        self.random = random.Random(seed * 1_000 + number)
        self.plain = Ledger(f"plain-{number}")
        self.transactional = Ledger(f"transactional-{number}")
        self.consumer: ottla.Consumer | None = None
        self.group = ""
        self.call = ""
        self.since = time.monotonic()
        steps = {
            self.send: 12, self.send_with_callback: 4, self.send_values: 4, self.wait_for_one: 3, self.flush: 3,
            self.ask_producer: 3, self.purge: 1, self.transact: 3, self.read: 12, self.iterate: 4, self.seek: 3,
            self.commit: 3, self.assign_anew: 2, self.close_consumer: 1, self.wake_another: 3, self.administer: 3,
            self.replace_producer: 1, self.replace_admin: 1,
        }  # fmt: skip
        self.steps = [step for step, weight in steps.items() for _ in range(weight)]

    def run(self) -> None:
        while not self.world.stopping.is_set():
            step = self.random.choice(self.steps)
            self.call, self.since = step.__name__, time.monotonic()
            self.world.storm.calls[step.__name__] += 1
            try:
                step()
            except DOCUMENTED as error:
                self.world.storm.raised[f"{step.__name__}: {type(error).__name__}"] += 1
            except BaseException:
                self.world.storm.faults.append(f"{self.name}, {step.__name__}: {traceback.format_exc()}")
            if len(self.plain.waiting) > 5_000:
                self.plain.settle(self.world.storm.faults)
        self.call, self.since = "the last close", time.monotonic()
        self.close_consumer()
        self.call = ""

    def producer(self) -> ottla.Producer:
        client = self.random.choice(self.world.producers).client
        assert isinstance(client, ottla.Producer)
        return client

    def send(self) -> None:
        producer = self.producer()
        if len(self.plain.outcomes) > MOST_RECORDS // THREADS:
            return
        for _ in range(self.random.randrange(1, BURST)):
            value = self.plain.next_value()
            key = None if self.random.random() < 0.5 else b"%d" % self.random.randrange(50)
            self.plain.sent(producer.send(PLAIN, value, key=key, headers=[("h", b"1")] if key else None))

    def send_with_callback(self) -> None:
        producer = self.producer()
        for _ in range(self.random.randrange(1, 20)):
            self.plain.sent(producer.send(PLAIN, self.plain.next_value(), on_delivery=self.world.on_delivery))
        producer.poll(self.random.choice([0, 0, 20]))

    def send_values(self) -> None:
        producer = self.producer()
        first = len(self.plain.outcomes)
        values = [self.plain.next_value() for _ in range(self.random.randrange(1, BURST))]
        for delivery, count in producer.send_values(PLAIN, values, partition=self.random.randrange(PARTITIONS)):
            self.plain.waiting += [(first + index, delivery) for index in range(count)]
            first += count

    def wait_for_one(self) -> None:
        delivery = self.producer().send(PLAIN, self.plain.next_value(), partition=self.random.randrange(PARTITIONS))
        self.plain.sent(delivery)
        delivery.result(30)

    def flush(self) -> None:
        self.producer().flush(self.random.choice([0, 1, 50, 30_000]))

    def ask_producer(self) -> None:
        producer = self.producer()
        calls: list[Callable[[], object]] = [producer.unwritten, producer.poll, lambda: producer.partitions_for(PLAIN)]
        self.random.choice(calls)()

    def purge(self) -> None:
        self.producer().purge()

    def transact(self) -> None:
        """Run one transaction of the producer that all threads share, one thread after the other. Other threads can close it."""
        producer = self.world.transactional.client
        assert isinstance(producer, ottla.Producer)
        with self.world.transaction_lock:
            first = len(self.transactional.outcomes)
            producer.begin_transaction()
            for _ in range(self.random.randrange(1, 30)):
                producer.send(IN_TRANSACTIONS, self.transactional.next_value())
            if self.random.random() < 0.3:
                producer.abort_transaction()
                outcome = ABORTED
            else:
                producer.commit_transaction()
                outcome = ACKNOWLEDGED
            for number in range(first, len(self.transactional.outcomes)):
                self.transactional.outcomes[number] = outcome

    def open_consumer(self) -> ottla.Consumer:
        if self.consumer is None:
            self.group = f"storm-{self.random.randrange(GROUPS)}"
            topic = self.random.choice([PLAIN, IN_TRANSACTIONS])
            self.consumer = ottla.Consumer(
                topic, bootstrap_servers=self.world.address, group_id=f"{self.group}-{topic}",
                group_protocol=self.random.choice(["classic", "auto"]), auto_offset_reset="earliest",
                isolation_level=self.random.choice(["read_committed", "read_uncommitted"]),
                max_poll_records=self.random.choice([1, 50, 5_000]),
                enable_auto_commit=self.random.random() < 0.5, auto_commit_interval_ms=50,
                heartbeat_interval_ms=200, session_timeout_ms=10_000, default_api_timeout_ms=20_000,
                on_revoked=self.random.choice([None, self.on_revoked]),
            )  # fmt: skip
            self.world.consumers[self.number] = self.consumer
        return self.consumer

    def on_revoked(self, partitions: list[ottla.TopicPartition]) -> None:
        if self.consumer is not None and self.random.random() < 0.5:
            with suppress(*DOCUMENTED):
                self.consumer.commit()

    def read(self) -> None:
        consumer = self.open_consumer()
        self.world.give(self.group, consumer.poll(self.random.choice([0, 20, 200])))

    def iterate(self) -> None:
        consumer, left = self.open_consumer(), self.random.randrange(1, 500)
        for record in consumer.records(timeout_ms=50):
            self.world.give(self.group, [record])
            left -= 1
            if not left:
                break

    def seek(self) -> None:
        consumer = self.open_consumer()
        for where in consumer.assignment():
            calls = [
                consumer.seek_to_beginning, consumer.seek_to_committed, consumer.pause, consumer.resume,
                lambda place: consumer.seek_to_time(0, place), consumer.position,
            ]  # fmt: skip
            try:
                self.random.choice(calls)(where)
            except ottla.KafkaError as error:
                if "is not assigned" not in str(error):  # a rebalance can take it away after assignment() has returned it
                    raise
        consumer.lag()

    def commit(self) -> None:
        consumer = self.open_consumer()
        if self.random.random() < 0.5:
            consumer.commit()
        else:
            consumer.commit_soon(on_commit=lambda offsets, error: None)

    def assign_anew(self) -> None:
        with ottla.Consumer(bootstrap_servers=self.world.address, auto_offset_reset="earliest") as consumer:
            consumer.assign([(PLAIN, self.random.randrange(PARTITIONS))])
            consumer.poll(20)
            consumer.incremental_assign([(IN_TRANSACTIONS, 0)])
            for _ in consumer.batches(timeout_ms=10):
                break
            consumer.assign([])

    def close_consumer(self) -> None:
        consumer, self.consumer = self.consumer, None
        if consumer is not None:
            self.world.consumers.pop(self.number, None)
            consumer.close()

    def wake_another(self) -> None:
        for consumer in list(self.world.consumers.values()):
            with suppress(ottla.Closed):
                consumer.wakeup()
            break

    def administer(self) -> None:
        admin = self.world.admin.client
        assert isinstance(admin, ottla.Admin)
        chosen = self.random.randrange(4)
        if chosen == 0:
            admin.list_topics()
        elif chosen == 1:
            admin.describe_topics(PLAIN, IN_TRANSACTIONS)
        elif chosen == 2:
            admin.list_groups()
        else:
            name = f"{CREATED}-{self.number}-{self.random.randrange(1 << 30)}"
            admin.create_topic(name, 1)
            admin.delete_topics(name)

    def replace_producer(self) -> None:
        self.random.choice([*self.world.producers, self.world.transactional]).replace()

    def replace_admin(self) -> None:
        self.world.admin.replace()


class World:
    """The clients that threads share, and what readers were given."""

    def __init__(self, address: str, storm: Storm) -> None:
        self.address = address
        self.storm = storm
        self.stopping = threading.Event()
        self.consumers: dict[int, ottla.Consumer] = {}
        self.transaction_lock = threading.Lock()
        self.given: dict[tuple[str, str, int], int] = {}
        """The offset after the last record that any member of a group was given, by group, topic and partition."""
        self._given_lock = threading.Lock()
        self.admin = Slot(lambda: ottla.Admin(address))
        self.producers = [
            Slot(lambda: ottla.Producer(address, linger_ms=1, batch_size=2_000)),
            Slot(lambda: ottla.Producer(address, linger_ms=0, buffer_memory=30_000, max_block_ms=20_000)),
        ]
        self.transactional = Slot(lambda: ottla.Producer(address, transactional_id="storm", linger_ms=1))

    def on_delivery(self, delivery: ottla.Delivery) -> None:
        if not delivery.done():
            self.storm.faults.append("on_delivery was called before the record was written or had failed")

    def give(self, group: str, records: list[ottla.ConsumerRecord]) -> None:
        with self._given_lock:
            for record in records:
                key = (group, record.topic, record.partition)
                self.given[key] = max(self.given.get(key, 0), record.offset + 1)

    def close(self) -> None:
        for slot in (*self.producers, self.transactional, self.admin):
            with suppress(*DOCUMENTED):
                slot.client.close()


def fork_once(world: World) -> str | None:
    """Fork, call every shared client in the child, and return the fault, if there is one."""
    child = os.fork()
    if child == 0:  # no test code may run on in the child, whatever happens
        code = 1
        try:
            code = _call_in_child(world)
        finally:
            os._exit(code)
    end = time.monotonic() + FORK_S
    while time.monotonic() < end:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return None if os.waitstatus_to_exitcode(status) == 0 else f"a forked child ended with status {status}"
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return f"a forked child did not end within {FORK_S} s"


def _call_in_child(world: World) -> int:
    calls: list[Callable[[], object]] = []
    for slot in (*world.producers, world.transactional):
        producer = slot.client
        assert isinstance(producer, ottla.Producer)
        calls += [lambda p=producer: p.send(PLAIN, b"child"), producer.flush, producer.unwritten]  # type: ignore[misc]  # bound now
    admin = world.admin.client
    assert isinstance(admin, ottla.Admin)
    calls.append(admin.list_topics)
    calls += [consumer.poll for consumer in world.consumers.values()]
    for call in calls:
        try:
            call()
        except ottla.Closed:
            continue
        return 2
    for client in (*(slot.client for slot in (*world.producers, world.transactional, world.admin)), *world.consumers.values()):
        client.close()
    return 0


def storm(address: str, seconds: float, *, seed: int) -> Storm:
    """Run the threads for some time, and check all that they did."""
    found = Storm()
    threads_before, before = threading.active_count(), sys.getswitchinterval()
    with ottla.Admin(address) as admin:
        for topic in (PLAIN, IN_TRANSACTIONS):
            admin.create_topic(topic, PARTITIONS)
    world = World(address, found)
    callers = [Caller(number, world, seed) for number in range(THREADS)]
    sys.setswitchinterval(1e-6)
    try:
        for caller in callers:
            caller.start()
        _watch(world, callers, seconds)
        world.stopping.set()
        for caller in callers:
            caller.join(STUCK_S)
            if caller.is_alive():
                found.faults.append(f"{caller.name} is still in {caller.call} {STUCK_S} s after the end\n{_stacks()}")
        world.close()
    finally:
        sys.setswitchinterval(before)
    gc.collect()
    if threading.active_count() > threads_before and not found.faults:
        found.faults.append(f"threads are left over: {[thread.name for thread in threading.enumerate()]}")
    _check_records(address, callers, found)
    _check_commits(world, found)
    return found


def _watch(world: World, callers: list[Caller], seconds: float) -> None:
    """Fork now and then, and look for calls that do not end."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and not world.storm.faults:
        time.sleep(min(1.0, seconds / 5))
        world.storm.forks += 1
        if (fault := fork_once(world)) is not None:
            world.storm.faults.append(fault)
        for caller in callers:
            if time.monotonic() - caller.since > STUCK_S:
                world.storm.faults.append(f"{caller.name} has been in {caller.call} for {STUCK_S} s\n{_stacks()}")


def _stacks() -> str:
    with tempfile.TemporaryFile("w+") as file:
        faulthandler.dump_traceback(file, all_threads=True)
        file.seek(0)
        return file.read()


def _values(address: str, topic: str) -> Iterator[bytes]:
    with ottla.Consumer(bootstrap_servers=address, isolation_level="read_committed") as consumer:
        places = consumer.partitions_for(topic)
        consumer.assign(places)
        consumer.seek_to_beginning()
        for found in consumer.records(until=consumer.end_offsets(places)):
            assert found.value is not None
            yield found.value


def _check_records(address: str, callers: list[Caller], found: Storm) -> None:
    """Hold the ledgers against the topics: each acknowledged record is there once, and no record is there twice."""
    for topic, ledgers in ((PLAIN, [c.plain for c in callers]), (IN_TRANSACTIONS, [c.transactional for c in callers])):
        counts = Counter(_values(address, topic))
        for ledger in ledgers:
            ledger.settle(found.faults, all_of_them=True)
            found.sent += len(ledger.outcomes)
            found.acknowledged += ledger.outcomes.count(ACKNOWLEDGED)
            for number, outcome in enumerate(ledger.outcomes):
                times = counts.pop(f"{ledger.name}:{number}".encode(), 0)
                if times > 1 or (outcome == ACKNOWLEDGED and not times) or (outcome == ABORTED and times):
                    found.faults.append(f"{topic}: record {number} of {ledger.name} with outcome {outcome} is there {times} times")
        if counts:
            found.faults.append(f"{topic}: records that no thread sent: {list(counts)[:3]}")


def _check_commits(world: World, found: Storm) -> None:
    """Hold the committed offsets of the topic without transaction markers against the records that the groups were given."""
    with ottla.Admin(world.address) as admin:
        for group in sorted({group for group, topic, _ in world.given if topic == PLAIN}):
            for where, committed in admin.list_group_offsets(f"{group}-{PLAIN}").items():
                given = world.given.get((group, *where), 0)
                if committed.offset > given:
                    found.faults.append(
                        f"{group}: {committed.offset} is committed for {where}, but {given} is the end of what was given"
                    )


@contextmanager
def broker(home: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(home / "data", {"group.initial.rebalance.delay.ms": 50}) as process:
        yield process


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as home, broker(Path(home)) as process:
        found = storm(process.address, chosen.seconds, seed=chosen.seed)
        log = process.log
    print(f"{sum(found.calls.values())} calls, {found.sent} records, {found.acknowledged} acknowledged, {found.forks} forks")
    for text, count in sorted(found.raised.items()):
        print(f"{count:8} {text}")
    faults = [*found.faults, *(line for line in log.splitlines() if " ERROR " in line or "Traceback" in line)]
    print(*faults[:20], sep="\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
