"""One broker with listeners of 0.6, of 0.7 and of today, so that clients of 2011 and of today meet on the same topics."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from bench.apache_kafka import free_port
from ottla.testing import BrokerProcess


@dataclass(frozen=True)
class Listeners07:
    """One broker: where clients of 0.6 find it, those of 0.7, and those of today."""

    broker: BrokerProcess
    oldest: str
    old: str
    today: str


@pytest.fixture(scope="package")
def listeners(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Listeners07]:
    """A broker whose topics have one partition."""
    oldest, old = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
    listen = ["--listen", f"{oldest},release=0.6", "--listen", f"{old},release=0.7"]
    home = tmp_path_factory.mktemp("kafka07")
    with BrokerProcess(home / "data", arguments=listen) as broker:
        yield Listeners07(broker, oldest, old, broker.address)
