"""ApiVersions tells the versions up to Kafka 4.4's, for every API that is served at all."""

from __future__ import annotations

from typing import Protocol

import pytest

import ottla
from bench.apache_kafka import VERSION
from ottla.wire import releases
from tests.support.frames import API_VERSIONS, Raw
from tests.support.peers import Peer

PRODUCE = 0
RELEASE = VERSION.rpartition(".")[0]
"""The line that the Apache Kafka of these tests is of."""

WITH_A_RECEIVER = {71, 72}
"""APIs of client metrics, which Apache Kafka serves only with a plugin that receives them."""
NEEDED = {0, 1, 2, 3, 8, 9, 10, 11, 12, 13, 14, 15, 16, 18, 19, 20, 22, 32, 37, 42, 60}
"""From Produce to DescribeCluster: what the clients of these tests cannot do without."""


class Addressed(Protocol):
    @property
    def address(self) -> str: ...


def advertised(broker: Addressed) -> dict[int, tuple[int, int]]:
    with Raw(broker.address) as raw:
        reply = raw.ask(API_VERSIONS, 0)
        assert reply.number("h") == 0
        found = [reply.next_records("hhh") for _ in range(reply.number("i"))]
    assert len({key for key, _, _ in found}) == len(found)
    return {key: (lowest, highest) for key, lowest, highest in found}


def test_every_needed_api_is_served(broker: Peer) -> None:
    assert advertised(broker).keys() >= NEEDED


def test_what_a_listener_of_a_release_announces_is_what_that_release_announces(broker: Peer, peer_name: str) -> None:
    """Lowest and highest version of every API that is served here, as Apache Kafka of that release tells them."""
    served = advertised_by_a_listener_of(RELEASE)
    if peer_name == "ottla":
        assert served == {key: (versions.start, versions.stop - 1) for key, versions in known(RELEASE).items() if key in served}
    else:
        told = advertised(broker)
        assert {key: served[key] for key in served.keys() - WITH_A_RECEIVER} == {
            key: told[key] for key in served.keys() & told.keys()
        }


def advertised_by_a_listener_of(release: str) -> dict[int, tuple[int, int]]:
    with ottla.Broker(release=release) as listener:
        return advertised(listener)


def known(release: str) -> dict[int, range]:
    """What a release serves; it announces Produce from version 0 on, for librdkafka's sake."""
    versions = releases.served_versions(release)
    return versions | {PRODUCE: range(versions[PRODUCE].stop)}


SHARE_GROUPS = (76, 77, 78, 79)
"""The APIs whose version 0 was a draft that no release serves any more."""


def test_the_highest_versions_are_those_of_kafka_and_all_but_share_groups_begin_at_0(broker: Peer, peer_name: str) -> None:
    """Kafka 4 announces less than it could read; clients of 0.10 to 2.0, which ask, find no Fetch there that they know."""
    if peer_name != "ottla":
        pytest.skip("this Apache Kafka is of another release")
    newest = releases.served_versions(releases.NAMES[-1])
    first = dict.fromkeys(SHARE_GROUPS, 1)
    assert advertised(broker) == {key: (first.get(key, 0), newest[key].stop - 1) for key in advertised(broker)}
