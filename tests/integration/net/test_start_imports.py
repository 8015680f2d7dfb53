"""A broker starts with few imports. The others follow between requests, in small steps, so that no first request waits for many."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest

from ottla.broker.scheduler import Scheduler
from ottla.net.startup import warm_up
from ottla.sim.clock import SimClock

MOST_AT_FIRST = 380
"""Of Ottla's modules, before the first answer. Each takes a quarter of a millisecond: import by need what starts do without."""
MOST_IN_A_STEP = 8
"""A step holds the loop: give modules that need many others a place before them in `warm_up.modules`."""

STARTED = """
import asyncio, json, sys, tempfile
from ottla.broker.settings import BrokerSettings
from ottla.net.server.listeners import Listen
from ottla.net.startup import warm_up
from ottla.net.startup.start import start

def loaded():
    return {name for name in sys.modules if name.startswith("ottla.")}

async def run():
    warm_up.begin, begun = lambda *given: begun.append(given), []
    with tempfile.TemporaryDirectory() as home:
        running = await start(home, [Listen("127.0.0.1", 0)], BrokerSettings.parse({}))
        reader, writer = await asyncio.open_connection(running.addresses[0].host, running.addresses[0].port)
        writer.write(bytes.fromhex("0000000a 0012 0000 00000001 ffff"))
        assert len(await reader.read(4)) == 4
        first, steps = sorted(loaded()), {}
        for name in warm_up.modules():
            before = loaded()
            __import__(name)
            steps[name] = sorted(loaded() - before)
        writer.close()
        await running.stop()
    print(json.dumps({"first": first, "steps": steps, "others": sorted(sys.modules), "begun": len(begun)}))

asyncio.run(run())
"""


REQUESTED = """
import json, sys
from ottla.records.batches.builder import build
from tests.support.machine import Machine
from tests.support.messages import request

def ask(key, version, **values):
    return machine.ask(key, version, request(key, version, **values))

machine = Machine(num_partitions=2, offsets_topic_num_partitions=2)
before = set(sys.modules)
ask(18, 3, client_software_name="t", client_software_version="1")
ask(3, 12, topics=[{"name": "t"}])
ask(19, 7, topics=[{"name": "t2", "num_partitions": 1, "replication_factor": 1}])
produced = {"name": "t", "partition_data": [{"index": 0, "records": build(None, [b"value"], 1_700_000_000_000)}]}
ask(0, 9, acks=-1, timeout_ms=10, topic_data=[produced])
ask(2, 7, topics=[{"name": "t", "partitions": [{"partition_index": 0, "timestamp": 0}]}])
ask(1, 12, max_wait_ms=10, min_bytes=1, topics=[{"topic": "t", "partitions": [{"partition": 0, "partition_max_bytes": 999}]}])
ask(10, 4, coordinator_keys=["g"])
member = {"group_id": "g", "session_timeout_ms": 10_000, "rebalance_timeout_ms": 10_000, "protocol_type": "consumer"}
joined = ask(11, 3, protocols=[{"name": "range", "metadata": b""}], **member)
mine = {"group_id": "g", "member_id": joined.member_id, "generation_id": joined.generation_id}
ask(14, 3, assignments=[{"member_id": joined.member_id, "assignment": b""}], **mine)
ask(12, 3, **mine)
topics = [{"name": "t", "partitions": [{"partition_index": 0, "committed_offset": 1}]}]
ask(8, 8, group_id="g", member_id=joined.member_id, generation_id_or_member_epoch=joined.generation_id, topics=topics)
ask(9, 7, group_id="g", topics=[{"name": "t", "partition_indexes": [0]}])
ask(68, 0, group_id="k", member_id="m", rebalance_timeout_ms=1000, subscribed_topic_names=["t"], topic_partitions=[])
ask(10, 4, key_type=1, coordinator_keys=["x"])
producer = ask(22, 4, transactional_id="x", transaction_timeout_ms=1000)
known = {"producer_id": producer.producer_id, "producer_epoch": producer.producer_epoch}
ids = {f"v3_and_below_{name}": value for name, value in {**known, "transactional_id": "x"}.items()}
ask(24, 3, v3_and_below_topics=[{"name": "t", "partitions": [0]}], **ids)
assert ask(26, 3, transactional_id="x", committed=True, **known).error_code == 0
ask(32, 4, resources=[{"resource_type": 2, "resource_name": "t"}])
print(json.dumps(sorted(name for name in set(sys.modules) - before if name.startswith("ottla."))))
"""


@pytest.fixture(scope="module")
def started() -> dict[str, Any]:
    """What a broker in a fresh process has loaded when it answers, and each step of the imports that follow."""
    done = subprocess.run([sys.executable, "-c", STARTED], capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_broker_answers_before_it_has_imported_much(started: dict[str, Any]) -> None:
    assert len(started["first"]) <= MOST_AT_FIRST
    handlers = [name for name in started["first"] if name.startswith("ottla.broker.handlers.")]
    assert len(handlers) < 10, handlers


def test_a_broker_without_a_cluster_loads_no_client_no_kafka07_and_no_parser_of_mails(started: dict[str, Any]) -> None:
    assert not [name for name in started["others"] if name.startswith(("ottla.client.", "ottla.net.client."))]
    assert "ottla.kafka07.wire" not in started["others"]
    assert not {"email", "importlib.metadata", "http"} & {*started["others"]}


def test_the_other_imports_begin_once_the_broker_answers_and_are_small_steps(started: dict[str, Any]) -> None:
    assert started["begun"] == 1
    assert all(len(loaded) <= MOST_IN_A_STEP for loaded in started["steps"].values()), started["steps"]


def test_the_first_requests_of_each_kind_import_nothing_that_the_background_has_not(started: dict[str, Any]) -> None:
    done = subprocess.run([sys.executable, "-c", REQUESTED], capture_output=True, text=True, check=True)
    warm = {*started["first"], *(name for loaded in started["steps"].values() for name in loaded)}
    assert not set(json.loads(done.stdout)) - warm, "add them to `warm_up.modules`"


class BackgroundImports:
    """The imports that a broker has in the background, on a clock that the test moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, has_requests: Callable[[], bool]) -> None:
        monkeypatch.setattr(warm_up, "modules", lambda: iter(("json", "left.out", "nowhere", "nowhere.too")))
        monkeypatch.setattr(warm_up, "import_module", self._import)
        self.imported: list[str] = []
        self._now_ms = 0
        self._clock = SimClock()
        self.scheduler = Scheduler(self._clock)
        warm_up.begin(self.scheduler, has_requests)

    def _import(self, name: str) -> None:
        self.imported.append(name)
        if name == "nowhere":
            import_module("ottla.nowhere")

    def advance(self, ms: int) -> list[str]:
        """The modules that were imported in this time."""
        before = len(self.imported)
        for _ in range(ms):
            self.scheduler.run_due(self._clock.advance(1))
        return self.imported[before:]


def test_modules_are_imported_one_by_one_with_pauses_and_what_is_missing_is_left_to_its_first_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steps = BackgroundImports(monkeypatch, lambda: False)
    assert steps.advance(warm_up.PAUSE_MS - 1) == []
    assert steps.advance(1) == ["left.out"]
    assert steps.advance(warm_up.PAUSE_MS) == ["nowhere"]
    assert steps.advance(1000) == ["nowhere.too"]


def test_a_module_that_python_cannot_parse_while_another_thread_parses_is_imported_again(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = BackgroundImports(monkeypatch, lambda: False)
    with monkeypatch.context() as patch:
        patch.setattr(warm_up, "import_module", _fail_to_parse)
        assert steps.advance(100) == []
    assert steps.advance(warm_up.AGAIN_MS)[0] == "left.out"


def _fail_to_parse(name: str) -> None:
    raise SystemError("AST constructor recursion depth mismatch (before=81, after=137)")


def test_no_module_is_imported_while_requests_wait_but_constant_load_does_not_put_it_off_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waiting = [True]
    steps = BackgroundImports(monkeypatch, lambda: waiting[0])
    assert steps.advance(10 * warm_up.PAUSE_MS) == []
    waiting[0] = False
    assert steps.advance(warm_up.PAUSE_MS) == ["left.out"]
    waiting[0] = True
    assert steps.advance(5000) == ["nowhere", "nowhere.too"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks are POSIX's")
def test_a_fork_waits_for_the_end_of_an_import() -> None:
    """A child of a fork in the middle of an import, by another thread, would wait for ever for that module."""
    code = (
        "import os, threading, time; from ottla.net.startup import warm_up\n"
        "held = threading.Event()\n"
        "def hold():\n"
        "    with warm_up._importing: held.set(); time.sleep(0.05); done.append(1)\n"
        "done = []; threading.Thread(target=hold).start(); held.wait()\n"
        "child = os.fork()\n"
        "if not child: os._exit(0 if done and warm_up._importing.acquire(timeout=5) else 1)\n"
        "raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
