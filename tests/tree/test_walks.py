"""How far a stranger walks to follow a request from its socket to its reply: files and functions entered on the broker's thread.

A warm request is served by a real broker while its thread is profiled. Compiled kernels, compiled plans of messages and what other
threads do (a sync) do not count. A limit is what was measured when it was last set and a tenth more: a feature has room on the way,
and nobody makes a detour unseen. Whoever shortens a walk lowers its limit.
"""

from __future__ import annotations

import re
import struct
import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from threading import Event
from types import CodeType, FrameType
from typing import Any, NamedTuple

import pytest

import ottla
from ottla.net.startup import warm_up
from ottla.wire.framing import FrameHeader, decode_response, encode_request
from tests.support.frames import FIND_COORDINATOR, Batch, Raw, array, blob, string
from tests.support.messages import request
from tests.support.waiting import eventually
from tests.tree.source import ROOT

SOURCE = str(Path(ottla.__file__).parent)
JOIN_GROUP, INIT_PRODUCER_ID, ADD_PARTITIONS, END, SHARE_HEARTBEAT, SHARE_FETCH_KEY = 11, 22, 24, 26, 76, 78
TRANSACTION = 1
"""The kind of a coordinator's key in FindCoordinator."""


class Walk(NamedTuple):
    """What was entered: (path below src/ottla, name of the function), in the order of the first time."""

    functions: list[tuple[str, str]]

    @property
    def files(self) -> list[str]:
        return list(dict.fromkeys(path for path, _ in self.functions))

    def __str__(self) -> str:
        counts = f"{len(self.files)} files, {len(self.functions)} functions"
        return "\n".join([counts, *(f"{path} {name}" for path, name in self.functions)])


class Limits(NamedTuple):
    files: int
    functions: int


CREATE = Limits(files=96, functions=475)
"""Of the creation of a topic of one partition, its syncs and its leader included: 87 files and 437 functions were measured."""
PRODUCE = Limits(files=45, functions=149)
"""Of a produce with acks=all of one batch, its write into the journal included: 41 files and 135 functions were measured."""
JOIN = Limits(files=33, functions=145)
"""Of a first member's join of a new classic group, up to its generation: 30 files and 132 functions were measured."""
END_TXN = Limits(files=55, functions=203)
"""Of a commit with one partition, with markers and writes into the journal: 50 files and 185 functions were measured."""
SHARE_FETCH = Limits(files=73, functions=333)
"""Of a fetch of one record with an acknowledgement, with a write into the journal: 67 files and 303 functions were measured."""
WALKS = 10
"""How often each is walked: now and then a timer is on the way, and the shortest counts."""


def drawn(title: str) -> list[tuple[str, str]]:
    """What CONTRIBUTING.md draws of a way: (path, name) of each line."""
    page = (ROOT / "CONTRIBUTING.md").read_text().split(f"**{title}", 1)[1]
    return re.findall(r"^    (\S+\.py) +(\S+)", page.split("**", 2)[1].split("##")[0], re.MULTILINE)


def walked(broker: ottla.Broker, ask: Callable[[], object]) -> Walk:
    """What the broker's thread enters between a request and its reply."""
    codes: dict[CodeType, None] = {}

    def entered(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(SOURCE):
            codes[frame.f_code] = None

    on_thread(broker, lambda: sys.setprofile(entered))
    ask()
    on_thread(broker, lambda: sys.setprofile(None))
    functions = [(code.co_filename[len(SOURCE) + 1 :], code.co_qualname) for code in codes]
    return Walk([(path, name) for path, name in functions if not name.endswith(">")])


def shortest(broker: ottla.Broker, ask: Callable[[int], object]) -> Walk:
    return min((walked(broker, partial(ask, number)) for number in range(WALKS)), key=lambda walk: len(walk.functions))


def on_thread(broker: ottla.Broker, call: Callable[[], None]) -> None:
    done = Event()
    assert broker._background is not None
    broker._background.call(call)
    broker._background.call(done.set)
    assert done.wait(10)


def join_v3(group_id: str) -> bytes:
    """A first member's, which gets its member id with the answer."""
    protocols = array(string("range") + blob(b""))
    return string(group_id) + struct.pack(">ii", 30_000, 30_000) + string("") + string("consumer") + protocols


@pytest.fixture
def broker() -> ottla.Broker:
    """Return a broker that has nothing to import any more: an import on its thread would be on the way of each walk."""
    for name in warm_up.modules():
        import_module(name)
    return ottla.Broker(log_retention_check_interval_ms=600_000, log_flush_offset_checkpoint_interval_ms=600_000)


def test_the_walk_of_the_creation_of_a_topic_stays_short(broker: ottla.Broker) -> None:
    """Up to the reply: the topic is in the registry, and this broker, as its own controller, leads its partition."""
    with broker, Raw(broker.address) as client:
        client.create_topic("warm")
        walk = shortest(broker, lambda number: client.create_topic(f"t-{number}"))
    assert set(drawn("CreateTopics")) <= set(walk.functions), "CONTRIBUTING.md draws another way"
    assert len(walk.files) <= CREATE.files, str(walk)
    assert len(walk.functions) <= CREATE.functions, str(walk)


def wait_for_journal(broker: ottla.Broker) -> None:
    """Return once the journal, which the first acknowledgement has requested, can be written."""
    assert broker._running is not None
    journal = broker._running.server.broker.partitions.syncs.journals.first
    eventually(lambda: journal.is_usable)


def test_the_walk_of_a_produce_stays_short(broker: ottla.Broker) -> None:
    with broker, Raw(broker.address) as client:
        client.create_topic("t")
        client.produce("t", Batch().encode())
        wait_for_journal(broker)
        for _ in range(3):
            client.produce("t", Batch().encode())
        walk = shortest(broker, lambda _: client.produce("t", Batch().encode()))
    assert not set(drawn("Produce")) - set(walk.functions), f"CONTRIBUTING.md draws another way: {walk}"
    assert len(walk.files) <= PRODUCE.files, str(walk)
    assert len(walk.functions) <= PRODUCE.functions, str(walk)


def test_the_walk_of_a_join_stays_short(broker: ottla.Broker) -> None:
    with broker, Raw(broker.address) as client:
        eventually(lambda: client.ask(FIND_COORDINATOR, 0, string("g")).number("h") == 0)
        eventually(lambda: client.ask(JOIN_GROUP, 3, join_v3("warm")).next_records("ih") == (0, 0))
        walk = shortest(broker, lambda number: client.ask(JOIN_GROUP, 3, join_v3(f"g-{number}")))
    assert set(drawn("JoinGroup")) <= set(walk.functions), "CONTRIBUTING.md draws another way"
    assert len(walk.files) <= JOIN.files, str(walk)
    assert len(walk.functions) <= JOIN.functions, str(walk)


def test_the_walk_of_the_end_of_a_transaction_stays_short(broker: ottla.Broker) -> None:
    """Up to the completed state: the reply leaves before the marker is written."""
    with broker, Raw(broker.address) as client:
        client.create_topic("t")
        eventually(
            lambda: client.ask(FIND_COORDINATOR, 1, string("id") + struct.pack(">b", TRANSACTION)).next_records("ih") == (0, 0)
        )
        _, error_code, producer_id, epoch = client.ask(INIT_PRODUCER_ID, 0, string("id") + struct.pack(">i", 60_000)).next_records(
            "ihqh"
        )
        assert error_code == 0
        who = string("id") + struct.pack(">qh", producer_id, epoch)

        def begin() -> None:
            client.ask(ADD_PARTITIONS, 0, who + array(string("t") + array(struct.pack(">i", 0))))
            eventually(lambda: state() == "Ongoing")

        def state() -> str:
            (shard,) = [each for each in machine.transactions.coordinators.shards if "id" in each.machine.by_id]
            return str(shard.machine.by_id["id"].status.label)

        def end(_: int) -> None:
            assert client.ask(END, 0, who + b"\1").next_records("ih") == (0, 0)
            eventually(lambda: state() == "CompleteCommit")

        wait_for_journal(broker)
        assert broker._running is not None
        machine = broker._running.server.broker
        walks = []
        for number in range(WALKS):
            begin()
            walks.append(walked(broker, partial(end, number)))
        walk = min(walks, key=lambda walk: len(walk.functions))
    assert not set(drawn("EndTxn")) - set(walk.functions), f"CONTRIBUTING.md draws another way: {walk}"
    assert len(walk.files) <= END_TXN.files, str(walk)
    assert len(walk.functions) <= END_TXN.functions, str(walk)


def test_the_walk_of_a_share_fetch_stays_short(broker: ottla.Broker) -> None:
    """Each acquires one record and accepts the one before it, so that the state is written before the response."""
    with broker, Raw(broker.address) as client:
        client.create_topic("t")
        for _ in range(WALKS + 8):
            client.produce("t", Batch().encode())
        fetch = accepting_member(broker, client)
        for _ in range(4):
            fetch(0)
        wait_for_journal(broker)
        for _ in range(3):
            fetch(0)
        walk = shortest(broker, fetch)
    assert not set(drawn("ShareFetch")) - set(walk.functions), f"CONTRIBUTING.md draws another way: {walk}"
    assert len(walk.files) <= SHARE_FETCH.files, str(walk)
    assert len(walk.functions) <= SHARE_FETCH.functions, str(walk)


def accepting_member(broker: ottla.Broker, client: Raw) -> Callable[[int], None]:
    """Begin a share session. Each call of the result fetches one record, and accepts the one that was fetched before."""

    def ask(key: int, version: int, **values: object) -> Any:
        client.send(b"".join(encode_request(FrameHeader(key, version, 1, "walk"), request(key, version, **values))))
        return decode_response(key, version, client.frame())[1]

    with ottla.Admin(broker.address) as admin:
        admin.alter_configs(ottla.ConfigResource.group("g"), set={"share.auto.offset.reset": "earliest"})
        topic_id = admin.list_topic_ids()["t"]
    who = {"group_id": "g", "member_id": "A" * 22}
    eventually(lambda: ask(FIND_COORDINATOR, 4, coordinator_keys=["g"]).coordinators[0].error_code == 0)
    epochs = iter(range(1 << 20))
    member_epoch, previous = 0, list[int]()

    def is_assigned() -> bool:
        nonlocal member_epoch
        beat = ask(SHARE_HEARTBEAT, 1, **who, member_epoch=member_epoch, subscribed_topic_names=None if member_epoch else ["t"])
        member_epoch = beat.member_epoch if beat.error_code == 0 else 0
        return beat.assignment is not None and bool(beat.assignment.topic_partitions)

    eventually(is_assigned)

    def fetch(_: int) -> None:
        accepted = [{"first_offset": offset, "last_offset": offset, "acknowledge_types": [1]} for offset in previous]
        topics = [{"topic_id": topic_id, "partitions": [{"partition_index": 0, "acknowledgement_batches": accepted}]}]
        limits = {"max_wait_ms": 5_000, "min_bytes": 1, "max_bytes": 1 << 20, "max_records": 1, "batch_size": 1}
        response = ask(SHARE_FETCH_KEY, 2, **who, **limits, share_acquire_mode=1, share_session_epoch=next(epochs), topics=topics)
        assert response.error_code == 0
        [partition] = response.responses[0].partitions
        assert (partition.error_code, partition.acknowledge_error_code) == (0, 0)
        previous[:] = [partition.acquired_records[0].first_offset]

    return fetch
