"""What requests leave behind goes by itself: whatever waits for the garbage collector has it stop the broker for it."""

from __future__ import annotations

import gc
from collections.abc import Callable

import pytest

from ottla.wire.api.api_versions import ApiVersionsRequest
from ottla.wire.api.metadata import MetadataRequest
from tests.support.machine import Machine
from tests.support.producing import create, fetch, produce

REQUESTS: dict[str, Callable[[Machine], object]] = {
    "produce, acks=all": lambda machine: produce(machine, b"value"),
    "produce, acks=1": lambda machine: produce(machine, b"value", acks=1),
    "fetch": fetch,
    "metadata": lambda machine: machine.ask(3, 12, MetadataRequest(topics=None)),
    "api versions": lambda machine: machine.ask(18, 3, ApiVersionsRequest()),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_a_request_leaves_no_cycles(name: str) -> None:
    machine = Machine()
    create(machine, "t")
    REQUESTS[name](machine)
    gc.collect()
    gc.disable()
    try:
        for _ in range(20):
            REQUESTS[name](machine)
        assert gc.collect() < 20
    finally:
        gc.enable()
