"""An admin client and fresh topics for the tests of the client."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

import ottla
from tests.support.peers import Peer


@pytest.fixture
def admin(broker: Peer) -> Iterator[ottla.Admin]:
    with ottla.Admin(broker.address) as client:
        yield client


@pytest.fixture
def topic(admin: ottla.Admin, unique: Callable[[str], str]) -> str:
    """A topic of three partitions that no other test uses."""
    name = unique("client")
    admin.create_topic(name, 3)
    return name
