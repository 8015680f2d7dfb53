"""Topologies in heartbeats that are refused whatever topics exist, each with a sentence."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.coord.consumer.assign import finish
from ottla.coord.streams.topology import statuses
from ottla.coord.streams.topology.request import (
    MOST_COPARTITIONED,
    MOST_SUBTOPOLOGIES,
    MOST_TOPICS,
    check,
    has_patterns,
    name_fault,
    named_topics,
    parse,
    topology_fault,
)
from ottla.coord.streams.values import CopartitionGroup, DeclaredSubtopology, InternalTopic, Topology
from ottla.wire.api.streams_group_heartbeat import StreamsGroupHeartbeatRequest as Request

GOOD = DeclaredSubtopology(
    "0",
    ("lines", "more"),
    state_changelog_topics=(InternalTopic("counts", 0, 0, (("cleanup.policy", "compact"),)),),
    repartition_sink_topics=("words",),
    repartition_source_topics=(InternalTopic("again", 3, -1),),
    copartition_groups=(CopartitionGroup((0, 1), (), (0,)),),
)


def fault(**changed: Any) -> str | None:
    return topology_fault(Topology(0, (GOOD._replace(**changed),)))


def test_a_topology_arrives_as_it_was_sent() -> None:
    sent = Request.Topology(
        epoch=7,
        subtopologies=[
            Request.Subtopology(
                subtopology_id="0",
                source_topics=["lines", "more"],
                state_changelog_topics=[
                    Request.TopicInfo(
                        name="counts",
                        partitions=0,
                        replication_factor=0,
                        topic_configs=[Request.KeyValue(key="cleanup.policy", value="compact")],
                    )
                ],
                repartition_sink_topics=["words"],
                repartition_source_topics=[Request.TopicInfo(name="again", partitions=3, replication_factor=-1)],
                copartition_groups=[Request.CopartitionGroup(source_topics=[0, 1], repartition_source_topics=[0])],
            )
        ],
    )
    assert parse(sent) == Topology(7, (GOOD,))
    assert topology_fault(parse(sent)) is None
    assert named_topics(sent.subtopologies * 2) == ["lines", "more", "words", "again", "counts"], "each once"


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"state_changelog_topics": (InternalTopic("counts", 3),)}, "Changelog topic counts has 3 partitions"),
        ({"repartition_source_topics": (InternalTopic("again", -1),)}, "negative partition count"),
        ({"repartition_source_topics": (InternalTopic("again", 1, -2),)}, "negative partition count or replication factor"),
        ({"repartition_source_topics": (InternalTopic("again"),) * 2}, "has topic again more than once"),
        ({"state_changelog_topics": (InternalTopic("counts"),) * 2}, "has topic counts more than once"),
        ({"state_changelog_topics": (InternalTopic("counts", 0, 0, (("a", "1"), ("a", "2"))),)}, "has the config a more than once"),
        ({"copartition_groups": (CopartitionGroup((2,)),)}, "refers to a topic that the subtopology does not have"),
        ({"copartition_groups": (CopartitionGroup((-1,)),)}, "refers to a topic that the subtopology does not have"),
        ({"copartition_groups": (CopartitionGroup((), (), (32767,)),)}, "refers to a topic that the subtopology does not have"),
    ],
)
def test_a_faulty_subtopology_is_refused(changed: dict[str, Any], said: str) -> None:
    assert said in (fault(**changed) or "")


def test_two_subtopologies_with_one_id_are_refused() -> None:
    assert topology_fault(Topology(0, (GOOD, GOOD))) == "Subtopology 0 appears more than once."


def test_a_negative_epoch_is_refused() -> None:
    assert topology_fault(Topology(-1, (GOOD,))) is not None


def _of(**lists: Any) -> Request.Subtopology:
    return Request.Subtopology(subtopology_id="0", **lists)


JOINED = Request.CopartitionGroup(source_topics=[0] * (MOST_COPARTITIONED + 1))


@pytest.mark.parametrize(
    "subtopologies",
    [
        [_of()] * (MOST_SUBTOPOLOGIES + 1),
        [_of(source_topics=["t"] * (MOST_TOPICS + 1))],
        [_of(source_topics=["t"], copartition_groups=[JOINED])],
        [_of(source_topics=["t"], copartition_groups=[Request.CopartitionGroup()] * (MOST_COPARTITIONED + 1))],
    ],
    ids=["subtopologies", "topics", "joined", "empty groups"],
)
def test_a_topology_beyond_the_limits_is_refused_unread(subtopologies: list[Request.Subtopology]) -> None:
    checked = finish(check(Request.Topology(epoch=0, subtopologies=subtopologies)))
    assert "allowed" in (checked.fault or "")
    assert checked.topology == Topology(0)


def test_patterns_are_noticed() -> None:
    assert not has_patterns(Topology(0, (GOOD,)))
    assert has_patterns(Topology(0, (GOOD, GOOD._replace(source_topic_regex=("l.*",)))))


def test_internal_and_invalid_names_are_refused() -> None:
    def illegal(name: str) -> str | None:
        return "illegal" if not name.isalpha() or len(name) > 249 else None

    assert name_fault(["lines", "words"], {"offsets"}, illegal) is None
    assert (
        name_fault(["lines", "offsets", ""], {"offsets"}, illegal) == "A topology cannot use the brokers' internal topics: offsets."
    )
    assert (
        name_fault(["li nes", "1", "", "2"], {"offsets"}, illegal)
        == "A topology cannot use invalid topic names: , 1, 2 and 1 more."
    )
    long = name_fault(["l" * 30_000], frozenset(), illegal)
    assert long is not None
    assert len(long) < 200, "an error message is short"


def test_statuses_have_kafkas_codes() -> None:
    assert [
        statuses.stale_topology(1, 2).code,
        statuses.missing_sources(["a"]).code,
        statuses.incorrectly_partitioned("a").code,
        statuses.missing_internals(["a"]).code,
        statuses.shutdown("a").code,
        statuses.delayed_by_rebalance().code,
        statuses.delayed_by_interval().code,
    ] == [0, 1, 2, 3, 4, 5, 5]
