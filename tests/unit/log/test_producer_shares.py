"""Producers of all logs of a broker: how many are remembered together, and whose are forgotten first."""

from __future__ import annotations

import logging
from random import Random

import pytest

from ottla.log.log import Log, LogConfig
from ottla.log.producer_state.producer_limit import FORGOTTEN_AT_ONCE, UNKNOWN, Counted, ProducerShares, fair
from ottla.ports import Now
from ottla.records.batches.builder import build
from ottla.sim.disk import SimDisk
from tests.unit.log.batches import NOW, append, make_batch

MOST = 40


def transactional(producer_id: int, sequence: int = 0) -> bytearray:
    return build([b"k"], [b"v"], NOW.wall_ms, producer_id=producer_id, producer_epoch=0, base_sequence=sequence, transactional=True)


def marker(producer_id: int) -> bytearray:
    keys, values = [bytes(4)], [bytes(6)]
    return build(keys, values, NOW.wall_ms, producer_id=producer_id, producer_epoch=0, transactional=True, control=True)


class Logs:
    """Some logs of one broker, and the time."""

    def __init__(self, count: int, most: int = MOST, config: LogConfig | None = None) -> None:
        self.most = most
        self.shares = ProducerShares(lambda: self.most)
        self.disk = SimDisk()
        self.config = config or LogConfig()
        self.now = NOW
        self.logs = [Log.open(self.disk, f"t-{number}", self.config, NOW) for number in range(count)]
        for log in self.logs:
            log.producers.join(self.shares)

    def write(self, number: int, producer_id: int, owner: str, sequence: int = 0, batch: bytearray | None = None) -> None:
        self.now = Now(self.now.wall_ms + 1, self.now.mono_ms + 1)
        log = self.logs[number]
        wanted = batch or make_batch(producer_id=producer_id, epoch=0, sequence=sequence)
        assert append(log, wanted, now=self.now).error_code == 0
        log.producers.claim(producer_id, owner)

    def remembers(self, number: int, producer_id: int) -> bool:
        return producer_id in self.logs[number].producers.by_id

    def check(self) -> None:
        """The count is that of what is there, and rings hold all that have no open transaction."""
        states = [state for log in self.logs if log.producers.shares for state in log.producers.by_id.values()]
        assert self.shares.count == len(states) == sum(share.count for share in self.shares._shares.values())
        idle = {id(state) for state in states if state.txn_first_offset < 0}
        found = set()
        for share in self.shares._shares.values():
            link = share.after
            while link is not share:
                assert isinstance(link, Counted)
                assert link.share is share
                found.add(id(link))
                link = link.after
        assert found == idle


def test_made_up_ids_of_one_owner_push_out_this_owners_in_whichever_partitions() -> None:
    logs = Logs(5)
    logs.write(0, 1, "User:alice")
    logs.write(1, 2, "User:mallory", batch=transactional(2))
    logs.write(2, 3, "User:mallory")
    for number in range(500):
        logs.write(number % 5, 1000 + number, "User:mallory")
        if not number % 10:
            logs.write(3, 4, "User:mallory", sequence=number // 10)
        assert logs.shares.count <= MOST
    logs.check()
    assert logs.remembers(0, 1)  # whoever made up no ids
    assert logs.remembers(1, 2)  # it has an open transaction
    assert logs.remembers(3, 4)  # it writes on
    assert not logs.remembers(2, 3)
    assert logs.remembers(499 % 5, 1499)
    logs.write(1, 2, "User:mallory", batch=marker(2))
    for number in range(50):
        logs.write(0, 2000 + number, "User:mallory")
    assert not logs.remembers(1, 2)


def test_within_a_partition_nobody_is_pushed_out_by_who_has_more() -> None:
    logs = Logs(1, config=LogConfig(ottla_max_producer_ids=20), most=1000)
    logs.write(0, 1, "User:alice")
    for number in range(100):
        logs.write(0, 1000 + number, "User:mallory")
    assert logs.remembers(0, 1)
    assert len(logs.logs[0].producers.by_id) <= 20
    logs.check()


def test_a_lowered_bound_takes_effect_in_slices_and_is_told(caplog: pytest.LogCaptureFixture) -> None:
    logs = Logs(2, most=1000)
    for number in range(300):
        logs.write(number % 2, number, "User:alice")
    logs.most = 10
    with caplog.at_level(logging.WARNING):
        logs.write(0, 1000, "User:bob")
    assert logs.shares.count == 301 - FORGOTTEN_AT_ONCE
    assert "64 producer ids" in caplog.text
    assert "User:alice" in caplog.text
    for number in range(10):
        logs.write(0, 1001 + number, "User:bob")
    assert logs.shares.count == 10
    logs.check()


def test_open_transactions_are_remembered_beyond_the_bound() -> None:
    logs = Logs(1, most=3)
    for number in range(10):
        logs.write(0, number, "User:alice", batch=transactional(number))
    assert logs.shares.count == 10
    for number in range(10):
        logs.write(0, number, "User:alice", batch=marker(number))
    logs.write(0, 100, "User:alice")
    assert logs.shares.count == 3
    logs.check()


@pytest.mark.parametrize("seed", range(20))
def test_whatever_becomes_of_logs_all_that_is_remembered_is_counted(seed: int) -> None:
    random = Random(seed)
    logs = Logs(4, most=30, config=LogConfig(ottla_max_producer_ids=15, producer_id_expiration_ms=300))
    for number in range(300):
        at = random.randrange(4)
        log = logs.logs[at]
        match random.randrange(12):
            case 0:
                log.truncate_to(random.randint(log.log_start_offset, log.log_end_offset))
            case 1 if not random.randrange(4):
                log.restart_at(log.log_end_offset + random.randrange(3))
            case 2:
                log.retain(Now(logs.now.wall_ms + random.randrange(300), logs.now.mono_ms))
            case 3 if not random.randrange(10):
                log.producers.leave()
            case 4:
                producer_id = random.randrange(5)
                if log.producers.is_open(producer_id, 0):
                    logs.write(at, producer_id, "User:t", batch=marker(producer_id))
                else:
                    known = log.producers.by_id.get(producer_id)
                    sequence = known.batches[-1].last_sequence + 1 if known and known.batches else 0
                    logs.write(at, producer_id, "User:t", batch=transactional(producer_id, sequence))
            case _:
                logs.write(at, 100 + number, random.choice(["User:a", "User:b", UNKNOWN]))
        logs.check()


def test_the_largest_groups_lose_first() -> None:
    assert fair([10, 3, 0, 7], 5) == [4, 0, 0, 1]
    assert fair([2, 2], 9) == [2, 2]
    assert fair([], 3) == []


@pytest.mark.parametrize("is_cut", [False, True])
def test_a_replay_remembers_no_more_than_a_partition_may_and_forgets_the_oldest(is_cut: bool) -> None:
    logs = Logs(1, config=LogConfig(ottla_max_producer_ids=20), most=1000)
    log = logs.logs[0]
    for number in range(300):
        logs.write(0, 5000 - number, "User:mallory")
    if is_cut:
        log.truncate_to(290)
    else:
        log = Log.open(logs.disk, "t-0", logs.config, logs.now)
    newest = 5001 - log.log_end_offset
    assert newest in log.producers.by_id
    assert newest + 5 in log.producers.by_id
    assert len(log.producers.by_id) <= 20
