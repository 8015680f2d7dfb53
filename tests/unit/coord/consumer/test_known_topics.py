"""The topics that a group coordinator knows, and the hash by which Kafka detects their changes, as Apache Kafka 4.3 stored it."""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Iterable
from types import FrameType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.coord.consumer.assign import TopicShape
from ottla.coord.consumer.spread import PARTS, Spread
from ottla.coord.consumer.topics import KnownTopic, KnownTopics

KAFKAS_TOPIC = KnownTopic("t031827087", bytes.fromhex("d6407fef344b42188b192e80c74c4f20"), TopicShape(4))
KAFKAS_HASH = 2700156928704655396


def test_a_group_of_one_topic_has_the_hash_that_kafka_stored() -> None:
    assert KnownTopics([KAFKAS_TOPIC]).hash_of(frozenset({"t031827087"})) == KAFKAS_HASH


def test_a_group_without_topics_has_the_hash_zero() -> None:
    assert KnownTopics([KAFKAS_TOPIC]).hash_of(frozenset({"elsewhere"})) == 0


@pytest.mark.parametrize(
    "changed",
    [
        KAFKAS_TOPIC._replace(topic_id=bytes(16)),
        KAFKAS_TOPIC._replace(shape=TopicShape(5)),
        KAFKAS_TOPIC._replace(shape=TopicShape(4, (frozenset({"a"}),) * 4)),
        KAFKAS_TOPIC._replace(shape=TopicShape(4, (frozenset({"a", "b"}),) * 4)),
    ],
    ids=["made anew", "more partitions", "racks", "more racks"],
)
def test_what_a_group_must_notice_changes_the_hash(changed: KnownTopic) -> None:
    others = [
        KAFKAS_HASH,
        KnownTopics([KAFKAS_TOPIC._replace(shape=TopicShape(4, (frozenset({"c"}),) * 4))]).hash_of(frozenset({"t031827087"})),
    ]
    assert KnownTopics([changed]).hash_of(frozenset({"t031827087"})) not in others


def test_topics_change_into_other_topics_and_stay_what_they_were() -> None:
    before = KnownTopics([KAFKAS_TOPIC])
    after = before.with_changes([KnownTopic("u", b"u" * 16, TopicShape(1))], ["t031827087"])
    assert [before.topic("t031827087"), before.topic("u")] == [KAFKAS_TOPIC, None]
    assert [after.topic("t031827087"), after.shapes_of({"u", "t031827087"})] == [None, {b"u" * 16: TopicShape(1)}]
    assert after.by_id({"u": [0], "t031827087": [1]}) == {b"u" * 16: frozenset({0})}
    assert after.version == before.version + 1


def test_a_change_costs_little_however_many_topics_there_are() -> None:
    """Copies are counted in entries, since one of a dictionary is one instruction."""
    topics = KnownTopics(KnownTopic(f"t-{number}", b"%16d" % number, TopicShape(1)) for number in range(20_000))
    tracemalloc.start()
    try:
        after = topics.with_changes([KnownTopic("new", b"n" * 16, TopicShape(1))], ["t-7"])
        taken = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert taken < 50_000
    assert [after.topic("t-7"), after.with_id(b"%16d" % 7), topics.topic("new")] == [None, None, None]
    assert len(after.names) == len(topics.names) == 20_000


def test_a_topic_made_anew_under_its_name_is_known_by_its_new_id_alone() -> None:
    before = KnownTopics([KAFKAS_TOPIC])
    again = KAFKAS_TOPIC._replace(topic_id=b"n" * 16)
    after = before.with_changes([again])
    assert [after.with_id(b"n" * 16), after.with_id(KAFKAS_TOPIC.topic_id)] == [again, None]
    assert after.hash_of(frozenset({"t031827087"})) != before.hash_of(frozenset({"t031827087"})) == KAFKAS_HASH
    assert before.with_id(KAFKAS_TOPIC.topic_id) == KAFKAS_TOPIC


@given(st.lists(st.tuples(st.sets(st.integers(0, 9)), st.sets(st.integers(0, 9))), max_size=8))
def test_a_spread_mapping_is_what_a_dictionary_would_be(steps: list[tuple[set[int], set[int]]]) -> None:
    keys = [number * PARTS if number % 2 else number for number in range(10)]  # half of them in one part
    plain = dict.fromkeys(keys[:4], -1)
    spread = Spread(plain)
    assert {key: spread.get(key) for key in spread} == plain
    assert len(spread) == len(plain)
    for at, (news, gone) in enumerate(steps):
        before = {**plain}
        plain = {key: value for key, value in plain.items() if key not in {keys[one] for one in gone}}
        plain |= {keys[one]: at for one in news}
        former, spread = spread, spread.with_changes({keys[one]: at for one in news}, [keys[one] for one in gone])
        assert {key: former.get(key) for key in former} == before
        assert {key: spread.get(key) for key in spread} == plain
        assert [len(spread), sorted(spread.values())] == [len(plain), sorted(plain.values())]
        assert sorted(spread.among(frozenset(keys[:5]))) == sorted(plain[key] for key in keys[:5] if key in plain)


def test_a_change_is_seen_in_the_topic_that_changed_alone() -> None:
    other = KnownTopic("u", b"u" * 16, TopicShape(1))
    before = KnownTopics([KAFKAS_TOPIC, other])
    hashes = [before.hash_of(frozenset({name})) for name in ("t031827087", "u")]
    after = before.with_changes([KAFKAS_TOPIC._replace(shape=TopicShape(9))])
    assert after.hash_of(frozenset({"u"})) == hashes[1]
    assert after.hash_of(frozenset({"t031827087"})) not in hashes
    assert after.with_changes([KAFKAS_TOPIC]).hash_of(frozenset({"t031827087"})) == hashes[0]


def _calls(work: Iterable[object]) -> list[int]:
    """Of Python, between two pauses."""
    calls = [0]

    def count(frame: FrameType, event: str, argument: object) -> None:
        calls[-1] += event == "call"

    sys.setprofile(count)
    try:
        calls.extend(0 for _ in work)
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.slow
def test_the_hash_of_thousands_of_topics_pauses_and_is_remembered_while_somebody_subscribes_to_them() -> None:
    names = [f"topic-{number}" for number in range(5_000)]
    topics = KnownTopics(KnownTopic(name, name.encode().ljust(16), TopicShape(1)) for name in names)
    same = KnownTopics(KnownTopic(name, name.encode().ljust(16), TopicShape(1)) for name in names)
    one, other = frozenset(names[:4_000]), frozenset(names[3_000:])
    calls = _calls(topics.hash_slowly(one, other))
    assert max(calls) < 10_000 < sum(calls)
    found = topics.hash_of(one, other)
    assert sum(_calls(topics.hash_of(one, other) for _ in range(1))) < 50
    assert found == same.hash_of(other, one)
    assert topics.hash_of(one) == same.hash_of(one) != found
    for number in range(100):
        topics.hash_of(frozenset(names[number : number + 2]))
    assert topics.hash_of(one, other) == found
