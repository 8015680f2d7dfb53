"""An admin client and fresh topics for the tests of the client."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

import ottla
from ottla.client.settings.clients import AdminSettings, ConsumerSettings, ProducerSettings
from tests.support.elsewhere import OTTLA, RELEASES_OF_PEERS, UNASKED, number, release_of
from tests.support.peers import Peer
from tests.support.waiting import eventually

PARTITIONS = 3
CREATES_TOPICS = "0.10.1"
"""The first release with a request that creates topics. Before, topics are made by their first use."""


@pytest.fixture(autouse=True)
def _release_is_given(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each client `api_version` on peers without ApiVersions, as their users have to."""
    release = RELEASES_OF_PEERS.get(request.config.getoption("--peer"))
    if release in UNASKED:
        for settings in (ProducerSettings, ConsumerSettings, AdminSettings):
            defaults: dict[str, object] = settings.__init__.__kwdefaults__ or {}
            monkeypatch.setitem(defaults, "api_version", release)


@pytest.fixture
def admin(broker: Peer) -> Iterator[ottla.Admin]:
    with ottla.Admin(broker.address) as client:
        yield client


@pytest.fixture
def topic(broker: Peer, peer_name: str, admin: ottla.Admin, unique: Callable[[str], str]) -> str:
    """A topic of three partitions that no other test uses."""
    name = unique("client")
    if number(release_of(peer_name)) < number(CREATES_TOPICS):
        with ottla.Producer(broker.address) as producer:
            assert len(producer.partitions_for(name)) == PARTITIONS, "the broker's own default"
    else:
        admin.create_topic(name, PARTITIONS, 1)
        if peer_name != OTTLA:  # there, a broker learns of it a moment later
            eventually(lambda: name in admin.list_topics())
    return name
