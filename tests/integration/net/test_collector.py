"""The garbage collector of a broker's process looks at few objects at a time, and at all that came only where that is worth it."""

from __future__ import annotations

import gc
import subprocess
import sys

import pytest

from ottla.net.server.garbage_collector import LOOK_S, URGENT_BLOCKS, WORTHWHILE_BLOCKS, YOUNG_OBJECTS, Collector

LIVING = f"""
import asyncio, gc
from ottla.net.server.garbage_collector import Collector

async def main():
    Collector().begin()
    looked_at = []
    def note(phase, info):
        if phase == "start":
            looked_at.append(sum(len(gc.get_objects(age)) for age in range(info["generation"] + 1)))
    gc.callbacks.append(note)
    living = [[number] for number in range({20 * YOUNG_OBJECTS})]
    gc.callbacks.remove(note)
    print(len(looked_at), max(looked_at))

asyncio.run(main())
"""


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="from Python 3.14 on no collection but a whole one looks at all that lives")
def test_however_many_objects_live_a_collection_looks_at_few_of_them() -> None:
    done = subprocess.run([sys.executable, "-c", LIVING], capture_output=True, text=True, check=True)
    times, most = map(int, done.stdout.split())
    assert times >= 10
    assert most <= 4 * YOUNG_OBJECTS


GROWING = f"""
import asyncio, gc
from ottla.net.server.garbage_collector import Collector

async def main():
    Collector().begin()
    looked_at = []
    def note(phase, info):
        if phase == "start":
            looked_at.append(sum(len(gc.get_objects(age)) for age in range(info["generation"] + 1)))
    gc.callbacks.append(note)
    living = []
    for step in range(60):
        living.append([[number] for number in range({YOUNG_OBJECTS})])
        await asyncio.sleep(0)
    gc.callbacks.remove(note)
    print(max(looked_at), sum(len(gc.get_objects(age)) for age in range(3)))

asyncio.run(main())
"""


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="from Python 3.14 on old objects are collected bit by bit")
def test_what_a_large_request_leaves_is_not_collected_all_at_once_at_its_end() -> None:
    """As many objects come in small steps as take a tenth of a second and more, if they are looked at together."""
    done = subprocess.run([sys.executable, "-c", GROWING], capture_output=True, text=True, check=True)
    most, left = map(int, done.stdout.split())
    assert most <= 20 * YOUNG_OBJECTS
    assert left <= 20 * YOUNG_OBJECTS


class Process:
    """What a collector sees of its process, and how often it collected everything."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.used_s = 0.0
        self.blocks = 1_000_000
        self.collected = 0
        monkeypatch.setattr(sys, "getallocatedblocks", lambda: self.blocks)
        monkeypatch.setattr(gc, "collect", self._collect)
        monkeypatch.setattr(gc, "freeze", lambda: None)
        self.collector = Collector(lambda: self.used_s)
        self.collector._spare()

    def _collect(self) -> None:
        self.collected += 1

    def after(self, *, blocks: int, used_s: float) -> int:
        self.blocks += blocks
        self.used_s += used_s
        self.collector.collect_if_due()
        return self.collected


def test_everything_is_collected_when_the_process_is_idle_and_something_came(monkeypatch: pytest.MonkeyPatch) -> None:
    process = Process(monkeypatch)
    assert process.after(blocks=WORTHWHILE_BLOCKS - 1, used_s=0) == 0
    assert process.after(blocks=1, used_s=LOOK_S / 2) == 0, "others are served"
    assert process.after(blocks=0, used_s=0) == 1
    assert process.after(blocks=0, used_s=0) == 1, "nothing came since"


def test_everything_is_collected_while_others_are_served_once_very_much_came(monkeypatch: pytest.MonkeyPatch) -> None:
    process = Process(monkeypatch)
    assert process.after(blocks=URGENT_BLOCKS - 1, used_s=LOOK_S) == 0
    assert process.after(blocks=1, used_s=LOOK_S) == 1
