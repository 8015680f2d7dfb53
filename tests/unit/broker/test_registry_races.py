"""Whoever writes to the registry expects to lose a race: it looks again, decides again, and answers what is true then."""

from __future__ import annotations

from typing import Any

from ottla.broker.failures import MOST_RACES
from ottla.cluster import layout
from ottla.cluster.producer_ids import BLOCK_SIZE
from ottla.cluster.producer_ids import allocate_block as take
from ottla.sim.registry import MemoryRegistry
from ottla.wire.errors import NONE, TOPIC_ALREADY_EXISTS
from tests.support.entries import make_entry
from tests.support.machine import Machine
from tests.support.messages import request
from tests.support.producing import produce

CREATE, DELETE, INIT_PRODUCER_ID = 19, 20, 22


def creation(*names: str) -> Any:
    return request(CREATE, 5, topics=[{"name": name, "num_partitions": 1, "replication_factor": 1} for name in names])


def made(rival: MemoryRegistry, name: str) -> None:
    make_entry(rival, layout.topic_path(name), layout.topic_json(b"r" * 16, {0: (2,)}))


def test_a_topic_that_another_broker_makes_first_exists_already_and_the_others_are_made() -> None:
    machine = Machine()
    machine.registry.lose_race(lambda rival: made(rival, "b"))
    results = machine.ask(CREATE, 5, creation("a", "b", "c")).topics
    assert {result.name: result.error_code for result in results} == {"a": NONE, "b": TOPIC_ALREADY_EXISTS, "c": NONE}
    assert produce(machine, b"v", topic="c").error_code == NONE


def take_block(rival: MemoryRegistry) -> None:
    change, _ = take(rival.get(layout.PRODUCER_ID_BLOCK), 2)
    rival.commit((change,))


def init_producer_id(machine: Machine) -> tuple[int, int]:
    body = request(INIT_PRODUCER_ID, 1, transactional_id=None, transaction_timeout_ms=1000)
    answer = machine.ask(INIT_PRODUCER_ID, 1, body)
    return answer.error_code, answer.producer_id


def test_producer_ids_that_another_broker_took_first_are_given_to_nobody_here() -> None:
    machine = Machine()
    machine.registry.lose_race(take_block)
    assert init_producer_id(machine) == (NONE, BLOCK_SIZE)


def test_who_loses_every_race_for_producer_ids_says_so_and_gets_some_later() -> None:
    machine = Machine()
    races = 2 * MOST_RACES  # of the block that is waited for, and of another try
    for _ in range(races):
        machine.registry.lose_race(take_block)
    error_code, producer_id = init_producer_id(machine)
    assert error_code != NONE
    assert producer_id == -1
    assert init_producer_id(machine) == (NONE, races * BLOCK_SIZE)
