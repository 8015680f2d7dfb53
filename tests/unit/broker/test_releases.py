"""The table of releases against the facts that it was made from, and what a listener of each release answers."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.releases import KNOWN, NAMES, TODAY, Dialect, UnknownRelease, find, traits
from ottla.broker.serving.purgatory import DelayedReply
from ottla.broker.serving.request import Close
from ottla.broker.settings import BrokerSettings, SettingError
from ottla.wire import releases
from ottla.wire.api.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.api.create_topics import CreateTopicsRequest
from ottla.wire.api.metadata import MetadataRequest, MetadataResponse
from ottla.wire.apis import API
from ottla.wire.errors import (
    INVALID_RECORD,
    INVALID_TIMESTAMP,
    KAFKA_STORAGE_ERROR,
    LEADER_NOT_AVAILABLE,
    NONE,
    UNKNOWN_TOPIC_OR_PARTITION,
    UNSUPPORTED_VERSION,
)
from ottla.wire.framing import decode_response
from ottla.wire.releases import highest
from tests.support.machine import Machine
from tests.support.routes import all_routes

SERVED = all_routes()

SPEC = Path(__file__).parents[4] / "shared" / "spec"
METADATA, CONTROLLED_SHUTDOWN, API_VERSIONS = 3, 7, 18
TELEMETRY = {71, 72}  # announced while there are subscriptions to client metrics
SEEN_OTHERWISE = {("0.10.2", 9): 2}
"""(release, API key) -> highest version, where a real broker of that release serves another than the list says."""


def facts(name: str) -> list[dict[str, str]]:
    path = SPEC / name
    if not path.exists():
        pytest.skip(f"../shared is absent: spec/{name} lists Kafka's versions")
    with path.open() as file:
        return list(csv.DictReader(file))


def machine_of(release: str, **settings: object) -> Machine:
    machine = Machine(**settings)
    machine.peer.release = find(release)
    return machine


def test_the_highest_versions_are_those_of_the_facts() -> None:
    rows = facts("api_max_by_release.csv")
    assert [name for name in rows[0] if name not in ("api_key", "name")] == list(NAMES)
    for name in NAMES:
        listed = {int(row["api_key"]): int(row[name]) for row in rows if row[name]}
        seen = {key: version for (release, key), version in SEEN_OTHERWISE.items() if release == name}
        assert highest(name) == listed | seen, name
    lines = [line.split()[:2] for line in releases.HIGHEST.strip().splitlines()]
    assert lines == [[row["api_key"], row["name"]] for row in rows]


def test_the_lowest_versions_are_those_of_the_facts() -> None:
    for row in facts("api_versions.csv"):
        key = int(row["api_key"])
        for name in ("4.0", "4.1", "4.2", "4.3", "4.4"):
            valid = row[f"valid_{name}"].rstrip("*")
            if key in highest(name) and valid != "none":
                assert find(name).versions[key].start == int(valid.split("-")[0]), (name, row["name"])


def test_every_version_of_every_release_is_one_that_the_wire_knows() -> None:
    for name in NAMES:
        for key, versions in find(name).versions.items():
            assert set(versions) <= set(API[key].versions), (name, key)


def test_before_4_0_every_release_served_from_version_0() -> None:
    for name in NAMES[: NAMES.index("4.0")]:
        assert {versions.start for versions in find(name).versions.values()} == {0}


def test_traits_begin_with_the_first_release_and_go_on_in_order() -> None:
    rows = [since for since in vars(traits).values() if isinstance(since, tuple) and since and isinstance(since[0], tuple)]
    for since in (*rows, *traits.SETTINGS.values()):
        numbers = [KNOWN.index(first) for first, _ in since]
        assert numbers[0] in (0, KNOWN.index(NAMES[0]))
        assert numbers == sorted(set(numbers))


def test_settings_of_a_release_are_settings_that_there_are() -> None:
    for name in KNOWN:
        BrokerSettings.parse(find(name).settings())
    assert find("0.9.0").settings()["group.max.session.timeout.ms"] == "30000"
    newest = BrokerSettings()
    for name, text in find(NAMES[-1]).settings().items():
        assert newest.text_of(name) == text, f"{name} is another default today"


@pytest.mark.parametrize(
    ("name", "found"), [("0.7.2", "0.7"), ("0.8.2.2", "0.8.2"), ("2.8.1", "2.8"), ("0.10.1", "0.10.1"), ("4.4", "4.4")]
)
def test_a_bug_fix_release_counts_as_its_line(name: str, found: str) -> None:
    assert find(name).name == found


@pytest.mark.parametrize("name", ["0.5", "5.0", "", "0.8", "latest"])
def test_an_unknown_release_is_refused_in_one_sentence_that_lists_the_others(name: str) -> None:
    with pytest.raises(UnknownRelease) as caught:
        find(name)
    assert str(caught.value) == f"There is no release {name!r}: choose one of {', '.join(KNOWN)}."


def test_releases_until_0_7_have_no_versions_and_requests_of_their_own() -> None:
    for name in KNOWN:
        assert bool(find(name).versions) == (name in NAMES)
        assert find(name).dialect is (Dialect.VERSIONED if name in NAMES else Dialect.FIRST)
    assert (find("0.6").newest_magic, find("0.7").newest_magic) == (0, 1)


def test_listeners_have_their_releases_in_the_configuration() -> None:
    settings = BrokerSettings.parse(
        {
            "listeners": "PLAINTEXT://:9092,OLD://:9093",
            "ottla.listener.releases": "old:0.9.0",
            "listener.security.protocol.map": "OLD:PLAINTEXT",
        }
    )
    assert [listener.name for listener in settings.listeners] == ["PLAINTEXT", "OLD"]
    assert settings.release_of("OLD") is find("0.9.0")
    assert settings.release_of("PLAINTEXT") is TODAY
    with pytest.raises(SettingError, match=r"no release '1\.9': choose one of 0\.6, .*, 4\.4\.$"):
        BrokerSettings.parse({"ottla.listener.releases": "OLD:1.9"})
    with pytest.raises(SettingError, match="listeners with their releases"):
        BrokerSettings.parse({"ottla.listener.releases": "0.9.0"})


@pytest.mark.parametrize("name", NAMES[NAMES.index("0.10.0") :])
def test_a_release_announces_its_own_versions_as_far_as_they_are_served(name: str) -> None:
    told = machine_of(name).ask(API_VERSIONS, 0, ApiVersionsRequest())
    versions = {each.api_key: range(each.min_version, each.max_version + 1) for each in told.api_keys}
    assert versions.pop(0) == range(find(name).versions[0].stop), "librdkafka turns codecs off where Produce does not begin at 0"
    announced = SERVED.keys() - {0} - TELEMETRY
    assert versions == {key: served for key, served in find(name).versions.items() if key in announced}


def test_each_version_of_each_release_is_served_or_refused_as_that_release_did() -> None:
    """Frames with nothing in them: only which of them are understood counts here."""
    for name in NAMES:
        machine, release = machine_of(name), find(name)
        for key in sorted(SERVED):
            for version in (*API[key].versions, API[key].versions.stop):
                frame = key.to_bytes(2, "big") + version.to_bytes(2, "big") + bytes(4) + b"\xff\xff"
                answer = machine.broker.receive(memoryview(bytearray(frame)), machine.peer, machine.clock.now())
                if version not in release.versions.get(key, ()) and key != API_VERSIONS and key not in release.version_passed_over:
                    expected: Any = type(None) if release.unreadable is traits.Unreadable.SILENCE else Close
                    assert isinstance(answer, expected), (name, key, version, answer)


@pytest.mark.parametrize(
    ("name", "keys"), [("0.10.0", []), ("2.3", []), ("2.4", [API_VERSIONS]), ("4.4", [API_VERSIONS])], ids=lambda value: str(value)
)
def test_a_version_of_api_versions_not_yet_made_is_answered_in_version_0(name: str, keys: list[int]) -> None:
    machine = machine_of(name)
    frame = API_VERSIONS.to_bytes(2, "big") + b"\0\x63\0\0\0\7\xff\xff"
    answer = machine.broker.receive(memoryview(bytearray(frame)), machine.peer, machine.clock.now())
    assert isinstance(answer, list)
    told = decode_response(API_VERSIONS, 0, b"".join(answer)[4:])[1]
    assert isinstance(told, ApiVersionsResponse)
    assert told.error_code == UNSUPPORTED_VERSION
    assert [each.api_key for each in told.api_keys] == keys


@pytest.mark.parametrize(
    ("name", "outcome"), [("0.8.2", Close), ("0.9.0", type(None)), ("0.10.2", list)], ids=["0.8.2", "0.9.0", "0.10.2"]
)
def test_api_versions_is_closed_passed_over_or_answered(name: str, outcome: type) -> None:
    machine = machine_of(name)
    frame = API_VERSIONS.to_bytes(2, "big") + b"\0\0\0\0\0\7\xff\xff"
    assert isinstance(machine.broker.receive(memoryview(bytearray(frame)), machine.peer, machine.clock.now()), outcome)


def test_release_0_8_passes_over_version_numbers_and_answers_in_version_0() -> None:
    machine = machine_of("0.8.2")
    body = b"\0\0\0\1\0\4gone"
    frame = METADATA.to_bytes(2, "big") + b"\0\x09" + b"\0\0\0\7\xff\xff" + body
    answer = machine.broker.receive(memoryview(bytearray(frame)), machine.peer, machine.clock.now())
    if isinstance(answer, DelayedReply):
        machine.pass_time(100)
        answer = answer.answer
    assert isinstance(answer, list)
    told = decode_response(METADATA, 0, b"".join(answer)[4:])[1]
    assert isinstance(told, MetadataResponse)
    assert [topic.name for topic in told.topics] == ["gone"]


def topic_error(machine: Machine, *, all_topics: bool = False) -> int | None:
    """What Metadata answers about a topic that is made by asking; None where it is not in a list of all topics."""
    names = None if all_topics else [MetadataRequest.MetadataRequestTopic(name="new")]
    topics = machine.ask(METADATA, 1, MetadataRequest(topics=names)).topics
    assert all(bool(topic.partitions) == (topic.error_code == NONE) for topic in topics)
    return topics[0].error_code if topics else None


def test_a_topic_made_by_asking_is_there_at_once_today() -> None:
    assert topic_error(Machine()) == NONE


@pytest.mark.parametrize(
    ("release", "error_code"),
    [("0.10.0", LEADER_NOT_AVAILABLE), ("3.9", LEADER_NOT_AVAILABLE), ("4.3", UNKNOWN_TOPIC_OR_PARTITION)],
)
def test_a_topic_made_by_asking_took_a_moment_in_releases(release: str, error_code: int) -> None:
    """Longer than sarama waits before it asks again, which is 10 ms."""
    machine = machine_of(release)
    assert topic_error(machine) == error_code
    machine.clock.advance(traits.UNSEEN_MS - 1)
    assert (topic_error(machine), topic_error(machine, all_topics=True)) == (error_code, None)
    machine.clock.advance(1)
    assert (topic_error(machine), topic_error(machine, all_topics=True)) == (NONE, NONE)


def test_a_described_topic_is_seen_at_once_in_every_release() -> None:
    machine = machine_of("4.3")
    wanted = CreateTopicsRequest.CreatableTopic(name="new", num_partitions=1, replication_factor=1)
    machine.ask(19, 5, CreateTopicsRequest(topics=[wanted], timeout_ms=1000))
    assert topic_error(machine) == NONE


def features(machine: Machine, version: int) -> tuple[set[str], set[str], int]:
    """The names of what is supported and what is finalized, and the epoch."""
    body = ApiVersionsRequest(client_software_name="lib", client_software_version="1.0")
    answer = machine.ask(API_VERSIONS, version, body)
    told = answer.supported_features, answer.finalized_features
    levels = {"group.version": 1, "transaction.version": 2, "share.version": 1, "streams.version": 1}
    assert all((each.min_version, each.max_version) == (0, levels.get(each.name, 0)) for each in told[0])
    assert all((each.min_version_level, each.max_version_level) == (levels[each.name],) * 2 for each in told[1])
    return {each.name for each in told[0]}, {each.name for each in told[1]}, answer.finalized_features_epoch


def test_new_protocols_and_epochs_of_transactions_are_features_where_they_were() -> None:
    off = {"kraft.version", "eligible.leader.replicas.version"}
    on_in_4_0 = {"group.version", "transaction.version"}
    on = on_in_4_0 | {"share.version", "streams.version"}
    today = on | off
    assert features(machine_of("3.9"), 4) == (set(), set(), -1)
    for machine, supported, levels in (
        (Machine(), today, on),
        (machine_of("4.0"), on_in_4_0 | off, on_in_4_0),
        (machine_of("4.3"), today, on),
    ):
        assert features(machine, 4) == (supported, levels, 0)
        assert features(machine, 3) == (set(), levels, 0)  # a range from 0 on is an error to older clients
        assert features(machine, 2) == (set(), set(), -1)


def test_error_codes_that_came_later_are_told_as_what_was_told_before() -> None:
    assert find("2.4").error_code(INVALID_RECORD) == INVALID_RECORD
    assert find("2.3").error_code(INVALID_RECORD) == 2
    assert find("0.11.0").error_code(KAFKA_STORAGE_ERROR) == 6
    assert find("0.9.0").error_code(INVALID_TIMESTAMP) == -1
    assert find("0.9.0").error_code(6) == 6


def test_todays_listener_is_no_release_and_serves_every_version_that_a_release_announced() -> None:
    assert TODAY.is_today
    newest = highest(NAMES[-1]) | {CONTROLLED_SHUTDOWN: 3}
    oldest = dict.fromkeys((76, 77, 78, 79), 1)  # version 0 was a draft
    assert {key: route.versions for key, route in SERVED.items()} == {
        key: range(oldest.get(key, 0), newest[key] + 1) for key in SERVED
    }
