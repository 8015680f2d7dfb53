"""The clients' time and randomness as the world has them: the modules of the shipped clients use it instead of the system's."""

from __future__ import annotations

import random
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

from ottla.sim.world import World

PACKAGES = ("ottla.net.client", "ottla.client")


class WorldTime:
    """The functions of the module `time` that clients call."""

    def __init__(self, world: World) -> None:
        self._world = world

    def monotonic(self) -> float:
        return self._world.now_ms / 1000

    def monotonic_ns(self) -> int:
        return self._world.now_ms * 1_000_000

    perf_counter, perf_counter_ns = monotonic, monotonic_ns

    def time(self) -> float:
        return self._world.clock.now().wall_ms / 1000

    def time_ns(self) -> int:
        return self._world.clock.now().wall_ms * 1_000_000


class WorldIds:
    """The function of the module `uuid` that clients call."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def uuid4(self) -> uuid.UUID:
        return uuid.UUID(int=self._random.getrandbits(128), version=4)


@contextmanager
def in_world(world: World) -> Iterator[None]:
    """Let the modules of the clients see the world's time, and choose by its seed."""
    chance = Random(f"clients {world.seed}")
    instead = {"time": (time, WorldTime(world)), "random": (random, chance), "uuid": (uuid, WorldIds(chance))}
    replaced = []
    for module_name, module in sorted(sys.modules.items()):
        if module_name.startswith(PACKAGES):
            for name, (real, simulated) in instead.items():
                if module.__dict__.get(name) is real:
                    setattr(module, name, simulated)
                    replaced.append((module, name, real))
    try:
        yield
    finally:
        for module, name, real in replaced:
            setattr(module, name, real)
