"""A sample of the damages, through brokers in processes of their own and a client of others."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.testing.process import BrokerProcess, DidNotStart
from tests.bitrot import damage
from tests.bitrot.damage import Case
from tests.bitrot.looks import Key
from tests.bitrot.run import Ward
from tests.bitrot.template import Template

confluent_kafka = pytest.importorskip("confluent_kafka")

SAMPLE = 16
PATIENCE_S = 4
LATEST_S = 20
SETTINGS = {"log.retention.check.interval.ms": 600_000, "offsets.topic.num.partitions": 2}


@pytest.fixture(scope="module")
def ward() -> Iterator[Ward]:
    with Ward() as ward:
        yield ward


def sample(ward: Ward) -> list[Case]:
    """Some cases of every kind of file that holds or describes records, after a stop and after a kill."""
    wanted = [case for case in ward.cases() if case.kind in (".log", ".txnindex", ".index", "leader-epoch-checkpoint")]
    return wanted[7 :: len(wanted) // SAMPLE][:SAMPLE]


class Reading:
    """What a consumer of others gets of all partitions: values by offset, and the partitions at which it met an error."""

    def __init__(self, address: str, every: list[Key], log: str) -> None:
        self.values: dict[Key, dict[int, bytes]] = {key: {} for key in every}
        self.ended: set[Key] = set()
        self.failed = {key for key in every if f"{key[0]}-{key[1]} is offline" in log}
        keys = [key for key in every if key not in self.failed]
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": address,
                "group.id": "a sample",
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_uncommitted",
                "enable.auto.commit": False,
            }
        )
        consumer.assign([confluent_kafka.TopicPartition(*key, confluent_kafka.OFFSET_BEGINNING) for key in keys])
        begun = last = time.monotonic()
        while (
            self.ended | self.failed != set(every) and time.monotonic() - last < PATIENCE_S and time.monotonic() - begun < LATEST_S
        ):
            message = consumer.poll(0.5)
            if message is None:
                continue
            error, key = message.error(), (message.topic(), message.partition())
            if error is None:
                last = time.monotonic()
                self.values[key][message.offset()] = message.value()
            elif error.code() == confluent_kafka.KafkaError._PARTITION_EOF:
                self.ended.add(key)
            elif key in self.values:
                self.failed.add(key)
        consumer.close()
        self.failed |= set(keys) - self.ended


def faults(template: Template, seen: Reading, log: str) -> list[str]:
    """What must not be: a record that nobody wrote, or one that is gone without a word of its partition."""
    found = []
    for key, noted in template.acknowledged.items():
        name, values = f"{key[0]}-{key[1]}", seen.values[key]
        newest = {record.key: offset for offset, record in noted.records.items()}
        begin = template.seen.partitions[key].start
        wanted = {offset: record for offset, record in noted.records.items() if offset >= begin}
        if key[0] == "compacted":
            wanted = {offset: record for offset, record in wanted.items() if newest[record.key] == offset}
        strange = [offset for offset, value in values.items() if offset in noted.records and noted.records[offset].value != value]
        if strange:
            found.append(f"{name}: the records at {strange} are others than were written")
        lost = sorted(wanted.keys() - values.keys())
        is_end = (
            template.stop == "kill" and lost and lost[0] >= template.synced.get(key, 0) and lost == sorted(wanted)[-len(lost) :]
        )
        if lost and name not in log and not is_end:
            found.append(f"{name}: the records at {lost} are gone, and the log says nothing of it")
        if key in seen.failed and name not in log:
            found.append(f"{name} cannot be read, and the log says nothing of it")
    if "Traceback" in log:
        found.append("a traceback")
    return found


def tried(case: Case, template: Template, home: Path) -> list[str]:
    """Start a broker on the damage, read everything, and stop it."""
    data = home / "data"
    damage.copy(template.path, data)
    damage.apply(case, data)
    broker = BrokerProcess(data, SETTINGS)
    try:
        broker.start()
    except DidNotStart as refused:
        file = case.path.rpartition("/")[2]
        return [] if file in refused.log or "registry" in refused.log else [f"the start is refused without a name: {refused.log}"]
    try:
        found = faults(template, Reading(broker.address, [*template.acknowledged], broker.log), broker.log)
        if broker.stop():
            found.append("the stop was not orderly")
        return found
    finally:
        broker.kill()


@pytest.mark.full(seconds=37)
@pytest.mark.interop
@pytest.mark.slow
@pytest.mark.expects_errors(".")
@pytest.mark.timeout(600)
def test_no_damage_is_silent_for_a_served_broker_and_a_real_client(ward: Ward, tmp_path: Path) -> None:
    templates = {one.stop: one for one in ward.templates}
    chosen = sample(ward)
    assert len(chosen) == SAMPLE
    found = [
        f"{case}: {fault}"
        for number, case in enumerate(chosen)
        for fault in tried(case, templates[case.stop], tmp_path / str(number))
    ]
    assert not found, "\n".join(found)
