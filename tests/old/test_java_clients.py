"""Java and Scala clients of old releases, on a listener of today and on one of their own release, among clients of today."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.old.conftest import TODAY, ManyReleases
from tests.old.java_clients import CLIENTS, SCALA, JavaClients, java_clients
from tests.old.today import COUNT, consume_today, find_coordinator_today, produce_today, written
from tests.support.kinds import one_of_each

pytestmark = pytest.mark.java
Unique = Callable[[str], str]
CODECS = ("none", "gzip", "snappy", "lz4")
SINCE_0_9 = [release for release in CLIENTS if release not in SCALA]


@pytest.fixture(scope="module", params=one_of_each(CLIENTS, "2.8.2", seconds=6))
def clients(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, JavaClients]:
    return request.param, java_clients(request.param, tmp_path_factory.mktemp("classes"))


@pytest.fixture(params=[TODAY, "own release"])
def listener(request: pytest.FixtureRequest, clients: tuple[str, JavaClients], releases: ManyReleases) -> str:
    """The address of a listener of today, and of one that is the clients' own release."""
    own = next(name for name in releases.addresses if clients[0].startswith(name))
    return releases.addresses[TODAY if request.param == TODAY else own]


def test_what_an_old_producer_writes_is_read_by_old_and_new(
    clients: tuple[str, JavaClients], listener: str, releases: ManyReleases, unique: Unique
) -> None:
    release, programs = clients
    topics = {codec: unique(f"java-{release}-{codec}") for codec in CODECS}
    asked = [f"{topic}={codec}" for codec, topic in topics.items()]
    said = programs.run("OldProducer", listener, str(COUNT), *asked)
    assert said == [[topic, str(i)] for topic in topics.values() for i in range(COUNT)]
    for topic in topics.values():
        assert consume_today(releases.addresses[TODAY], topic) == written(topic)
    if release in SCALA:
        read = programs.run("ScalaClients", "consume", listener, str(COUNT), *topics.values())
    else:
        read = programs.run("OldConsumer", listener, unique("group"), str(COUNT * len(topics)), *topics.values())
    assert sorted(read) == sorted(row for topic in topics.values() for row in written(topic))


def test_what_a_client_of_today_writes_is_read_by_an_old_consumer(
    clients: tuple[str, JavaClients], listener: str, releases: ManyReleases, unique: Unique
) -> None:
    release, programs = clients
    topics = {codec: unique(f"today-{codec}") for codec in CODECS}
    for codec, topic in topics.items():
        produce_today(releases.addresses[TODAY], topic, codec)
    if release in SCALA:
        read = programs.run("ScalaClients", "consume", listener, str(COUNT), *topics.values())
    else:
        read = programs.run("OldConsumer", listener, unique("group"), str(COUNT * len(topics)), *topics.values())
    assert sorted(read) == sorted(row for topic in topics.values() for row in written(topic))


@pytest.mark.parametrize("clients", ["0.8.2.2"], indirect=True)
def test_the_scala_producer_writes_with_its_codecs(
    clients: tuple[str, JavaClients], listener: str, releases: ManyReleases, unique: Unique
) -> None:
    topics = {codec: unique(f"scala-{codec}") for codec in ("none", "gzip", "snappy")}
    clients[1].run("ScalaClients", "produce", listener, str(COUNT), *(f"{topic}={codec}" for codec, topic in topics.items()))
    for topic in topics.values():
        assert consume_today(releases.addresses[TODAY], topic) == written(topic)


@pytest.mark.parametrize("clients", ["0.8.2.2"], indirect=True)
def test_the_scala_consumer_finds_and_commits_offsets_in_two_separate_stores(
    clients: tuple[str, JavaClients], listener: str, releases: ManyReleases, unique: Unique
) -> None:
    topic, group = unique("offsets"), unique("scala-group")
    find_coordinator_today(releases.addresses[TODAY], group)
    produce_today(releases.addresses[TODAY], topic, "none")
    assert clients[1].run("ScalaClients", "offsets", listener, group, topic) == [
        ["before -1", str(COUNT)],
        ["before -2", "0"],
        ["fetch v0", "-1", "3"],
        ["commit v0", "0"],
        ["fetch v0", "5", "0"],
        ["fetch v1", "-1", "0"],
        ["commit v1", "0"],
        ["fetch v1", "6", "0"],
    ]
