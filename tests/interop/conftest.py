"""Which client a test runs with."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.clients import CLIENTS, Client

Connect = Callable[[str], Client]


@pytest.fixture(params=CLIENTS, ids=lambda kind: kind.name)
def connect(request: pytest.FixtureRequest) -> Connect:
    """Makes a client of one library for a broker's address."""
    kind: type[Client] = request.param
    return kind
