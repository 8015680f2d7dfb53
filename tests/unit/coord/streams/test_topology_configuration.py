"""Partition counts of internal topics, numbers of tasks, and the status of topologies whose topics are missing or wrong."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.coord.consumer.assign import TopicShape
from ottla.coord.consumer.topics import KnownTopic, KnownTopics
from ottla.coord.streams.topology.configuration import InvalidTopology, configure
from ottla.coord.streams.topology.creation import creatable
from ottla.coord.streams.topology.dependencies import is_same, required_topics
from ottla.coord.streams.topology.endpoints import partitions_of, task_fault
from ottla.coord.streams.values import (
    INCORRECTLY_PARTITIONED_TOPICS,
    MISSING_INTERNAL_TOPICS,
    MISSING_SOURCE_TOPICS,
    ConfiguredTopology,
    CopartitionGroup,
    DeclaredSubtopology,
    InternalTopic,
    Topology,
)

COMPACT = (("cleanup.policy", "compact"), ("message.timestamp.type", "CreateTime"))


def known(**partitions: int) -> KnownTopics:
    """Topics by name, an underscore for each dash."""
    names = {name.replace("_", "-"): count for name, count in partitions.items()}
    return KnownTopics(KnownTopic(name, name.encode().ljust(16, b"\0")[:16], TopicShape(count)) for name, count in names.items())


def topology(*subtopologies: DeclaredSubtopology) -> Topology:
    return Topology(1, subtopologies)


def ready(found: ConfiguredTopology | InvalidTopology) -> ConfiguredTopology:
    assert isinstance(found, ConfiguredTopology)
    return found


WORD_COUNT = topology(
    DeclaredSubtopology("0", ("lines",), repartition_sink_topics=("words",)),
    DeclaredSubtopology(
        "1", repartition_source_topics=(InternalTopic("words"),), state_changelog_topics=(InternalTopic("counts", 0, 0, COMPACT),)
    ),
)


def test_a_word_count_has_as_many_words_and_counts_as_lines() -> None:
    found = ready(configure(WORD_COUNT, known(lines=3)))
    assert [(name, each.task_count) for name, each in found.subtopologies.items()] == [("0", 3), ("1", 3)]
    assert found.missing == (InternalTopic("counts", 3, 0, COMPACT), InternalTopic("words", 3))
    assert found.problem is not None
    assert found.problem.code == MISSING_INTERNAL_TOPICS
    assert found.problem.detail == "Internal topics are missing: counts, words"


def test_a_topology_whose_internal_topics_exist_is_ready() -> None:
    found = ready(configure(WORD_COUNT, known(lines=3, words=3, counts=3)))
    assert found.problem is None
    assert found.missing == ()


def test_only_missing_topics_are_created() -> None:
    assert ready(configure(WORD_COUNT, known(lines=3, words=3))).missing == (InternalTopic("counts", 3, 0, COMPACT),)


def test_the_creation_of_a_topic_has_its_configs_and_the_default_replication_factor() -> None:
    made = creatable(InternalTopic("counts", 3, 0, COMPACT))
    assert (made.name, made.num_partitions, made.replication_factor) == ("counts", 3, -1)
    assert [(config.name, config.value) for config in made.configs] == [*COMPACT]
    assert creatable(InternalTopic("counts", 3, 2)).replication_factor == 2


def test_missing_source_topics_are_named_and_nothing_is_created() -> None:
    sources = topology(DeclaredSubtopology("0", ("d", "c", "b", "a", "here"), repartition_sink_topics=("words",)))
    found = ready(configure(sources, known(here=1)))
    assert found.subtopologies == {}
    assert found.missing == ()
    assert found.problem is not None
    assert found.problem == (MISSING_SOURCE_TOPICS, "Source topics are missing: a, b, c and 1 more. Create them.")


@pytest.mark.parametrize("name", ["words", "counts"])
def test_an_internal_topic_with_another_partition_count_is_reported(name: str) -> None:
    topics = {"lines": 3, "words": 3, "counts": 3, name: 2}
    found = ready(configure(WORD_COUNT, known(**topics)))
    assert found.problem is not None
    assert found.problem.code == INCORRECTLY_PARTITIONED_TOPICS
    assert f"{name} has 2 partitions, but the topology requires 3" in found.problem.detail.replace("Internal topic ", "")


def test_a_repartition_topic_keeps_a_count_of_its_own() -> None:
    given = topology(
        DeclaredSubtopology("0", ("lines",), repartition_sink_topics=("words",)),
        DeclaredSubtopology(
            "1", repartition_source_topics=(InternalTopic("words", 5, 2),), state_changelog_topics=(InternalTopic("counts"),)
        ),
    )
    found = ready(configure(given, known(lines=3)))
    assert found.missing == (InternalTopic("counts", 5), InternalTopic("words", 5, 2))
    assert found.subtopologies["1"].task_count == 5


def test_counts_are_derived_through_several_subtopologies_in_any_order() -> None:
    steps = [
        DeclaredSubtopology(str(at), repartition_source_topics=(InternalTopic(f"r{at}"),), repartition_sink_topics=(f"r{at + 1}",))
        for at in range(1, 40)
    ]
    ends = (
        DeclaredSubtopology("0", ("lines",), repartition_sink_topics=("r1",)),
        DeclaredSubtopology("x", repartition_source_topics=(InternalTopic("r40"),)),
    )
    for order in (steps, steps[::-1]):
        found = ready(configure(topology(*order, *ends), known(lines=7)))
        assert {each.task_count for each in found.subtopologies.values()} == {7}
        assert list(found.subtopologies) == sorted(found.subtopologies)


def test_a_repartition_topic_of_two_writers_gets_the_count_of_the_first_in_kafkas_order() -> None:
    given = topology(
        DeclaredSubtopology("0", ("few",), repartition_sink_topics=("r",)),
        DeclaredSubtopology("1", ("many",), repartition_sink_topics=("r",)),
        DeclaredSubtopology("2", repartition_source_topics=(InternalTopic("r"),)),
    )
    assert ready(configure(given, known(few=2, many=9))).missing == (InternalTopic("r", 2),)


def test_a_subtopology_with_several_sources_has_as_many_tasks_as_the_largest() -> None:
    found = ready(configure(topology(DeclaredSubtopology("0", ("few", "many"))), known(few=2, many=9)))
    assert found.subtopologies["0"].task_count == 9


def test_repartition_topics_get_the_count_of_the_topic_that_they_are_joined_with() -> None:
    join = DeclaredSubtopology(
        "1",
        ("table",),
        repartition_source_topics=(InternalTopic("r"),),
        copartition_groups=(CopartitionGroup((0,), (), (0,)),),
    )
    found = ready(
        configure(topology(DeclaredSubtopology("0", ("lines",), repartition_sink_topics=("r",)), join), known(lines=3, table=8))
    )
    assert found.missing == (InternalTopic("r", 8),)


def test_joined_repartition_topics_get_the_largest_count() -> None:
    given = topology(
        DeclaredSubtopology("0", ("few",), repartition_sink_topics=("a",)),
        DeclaredSubtopology("1", ("many",), repartition_sink_topics=("b",)),
        DeclaredSubtopology(
            "2",
            repartition_source_topics=(InternalTopic("a"), InternalTopic("b")),
            copartition_groups=(CopartitionGroup((), (), (0, 1)),),
        ),
    )
    assert ready(configure(given, known(few=2, many=9))).missing == (InternalTopic("a", 9), InternalTopic("b", 9))


def test_joined_repartition_topics_get_the_count_that_one_of_them_has_by_itself() -> None:
    given = topology(
        DeclaredSubtopology("0", ("many",), repartition_sink_topics=("a", "b")),
        DeclaredSubtopology(
            "2",
            repartition_source_topics=(InternalTopic("a", 4), InternalTopic("b")),
            copartition_groups=(CopartitionGroup((), (), (0, 1)),),
        ),
    )
    assert ready(configure(given, known(many=9))).missing == (InternalTopic("a", 4), InternalTopic("b", 4))


@pytest.mark.parametrize(
    ("sources", "repartition", "said"),
    [
        (("few", "many"), (), "few has 2, many has 9"),
        (("many",), (InternalTopic("r", 5),), "Repartition topic r has 5 partitions, and the topics joined with it have 9"),
        ((), (InternalTopic("q", 4), InternalTopic("r", 5)), "q has 4, r has 5"),
    ],
)
def test_joined_topics_with_different_counts_are_reported(
    sources: tuple[str, ...], repartition: tuple[InternalTopic, ...], said: str
) -> None:
    group = CopartitionGroup(tuple(range(len(sources))), (), tuple(range(len(repartition))))
    given = topology(
        DeclaredSubtopology("0", ("few",), repartition_sink_topics=("q", "r")),
        DeclaredSubtopology("1", sources, repartition_source_topics=repartition, copartition_groups=(group,)),
    )
    found = ready(configure(given, known(few=2, many=9)))
    assert found.problem is not None
    assert found.problem.code == INCORRECTLY_PARTITIONED_TOPICS
    assert said in found.problem.detail
    assert found.subtopologies == {}


def test_a_count_of_another_group_does_not_bind_this_one() -> None:
    given = topology(
        DeclaredSubtopology("0", ("many",), repartition_sink_topics=("a", "b", "c")),
        DeclaredSubtopology("1", repartition_source_topics=(InternalTopic("c", 2),)),
        DeclaredSubtopology(
            "2",
            repartition_source_topics=(InternalTopic("a"), InternalTopic("b")),
            copartition_groups=(CopartitionGroup((), (), (0, 1)),),
        ),
    )
    assert ready(configure(given, known(many=9))).missing == (InternalTopic("a", 9), InternalTopic("b", 9), InternalTopic("c", 2))


def test_subtopologies_in_a_circle_are_refused() -> None:
    circle = topology(
        DeclaredSubtopology("0", repartition_sink_topics=("a",), repartition_source_topics=(InternalTopic("b"),)),
        DeclaredSubtopology("1", repartition_sink_topics=("b",), repartition_source_topics=(InternalTopic("a"),)),
    )
    found = configure(circle, known())
    assert isinstance(found, InvalidTopology)
    assert "in a circle" in found.message


def test_a_circle_with_a_source_topic_has_its_partition_count() -> None:
    circle = topology(
        DeclaredSubtopology("0", ("lines",), repartition_sink_topics=("a",), repartition_source_topics=(InternalTopic("b"),)),
        DeclaredSubtopology("1", repartition_sink_topics=("b",), repartition_source_topics=(InternalTopic("a"),)),
    )
    assert ready(configure(circle, known(lines=3))).missing == (InternalTopic("a", 3), InternalTopic("b", 3))


def test_a_repartition_topic_that_nothing_writes_is_refused() -> None:
    found = configure(topology(DeclaredSubtopology("0", repartition_source_topics=(InternalTopic("r"),))), known())
    assert isinstance(found, InvalidTopology)
    assert "no subtopology writes it" in found.message


def test_a_subtopology_without_source_topics_is_refused() -> None:
    found = configure(topology(DeclaredSubtopology("0", state_changelog_topics=(InternalTopic("c"),))), known())
    assert isinstance(found, InvalidTopology)
    assert "no source topics" in found.message


def test_a_topology_without_subtopologies_has_no_tasks() -> None:
    found = ready(configure(topology(), known()))
    assert found.problem is None
    assert found.subtopologies == {}


def test_tasks_read_the_partitions_that_their_topics_have() -> None:
    found = ready(configure(topology(DeclaredSubtopology("0", ("few", "many"))), known(few=2, many=4)))
    topics = known(few=2, many=4)
    tasks = {"0": frozenset({0, 3}), "unknown": frozenset({0})}
    assert [(each.topic, each.partitions) for each in partitions_of(tasks, found, topics)] == [("few", [0]), ("many", [0, 3])]
    assert partitions_of(tasks, found, known()) == []


def test_tasks_that_do_not_exist_are_named() -> None:
    found = ready(configure(topology(DeclaredSubtopology("0", ("few",))), known(few=2)))
    assert task_fault({"0": frozenset({0, 1})}, found) is None
    assert task_fault({"0": frozenset({1, 2})}, found) == "Task 2 of subtopology 0 does not exist: it has 2 tasks."
    assert task_fault({"0": frozenset({-1})}, found) is not None
    assert task_fault({"9": frozenset({0})}, found) == "Subtopology 9 does not exist in the topology."


def test_the_order_of_subtopologies_does_not_make_topologies_differ() -> None:
    backwards = Topology(1, WORD_COUNT.subtopologies[::-1])
    assert is_same(WORD_COUNT, backwards)
    assert not is_same(WORD_COUNT, WORD_COUNT._replace(epoch=2))
    assert not is_same(WORD_COUNT, Topology(1, WORD_COUNT.subtopologies[:1]))
    other = WORD_COUNT.subtopologies[0]._replace(source_topics=("others",))
    assert not is_same(WORD_COUNT, Topology(1, (other, WORD_COUNT.subtopologies[1])))


def test_sources_repartition_topics_and_changelogs_are_required() -> None:
    assert required_topics(WORD_COUNT) == {"lines", "words", "counts"}


@st.composite
def topologies(draw: st.DrawFn) -> Topology:
    """Subtopologies that read and write each other's topics, sources that may be missing, and groups of joined topics."""
    size = draw(st.integers(1, 6))
    names = [f"r{number}" for number in range(5)]
    made = []
    for number in range(size):
        sources = tuple(sorted(draw(st.sets(st.sampled_from(["a", "b", "c"]), max_size=2))))
        read = sorted(draw(st.sets(st.sampled_from(names), max_size=2)))
        repartition = tuple(InternalTopic(name, draw(st.sampled_from([0, 0, 2, 5]))) for name in read)
        joined = CopartitionGroup(tuple(range(len(sources))), (), tuple(range(len(repartition))))
        made.append(
            DeclaredSubtopology(
                str(number),
                sources,
                state_changelog_topics=(InternalTopic(f"c{number}"),) if draw(st.booleans()) else (),
                repartition_sink_topics=tuple(sorted(draw(st.sets(st.sampled_from(names), max_size=2)))),
                repartition_source_topics=repartition,
                copartition_groups=(joined,) if draw(st.integers(0, 3)) == 0 else (),
            )
        )
    return Topology(draw(st.integers(0, 3)), tuple(made))


@pytest.mark.slow
@given(given=topologies(), counts=st.dictionaries(st.sampled_from(["a", "b", "c", "r0", "c0"]), st.integers(1, 9)))
def test_once_its_missing_topics_are_created_a_topology_is_ready_with_the_same_tasks(
    given: Topology, counts: dict[str, int]
) -> None:
    first = configure(given, known(**counts))
    if isinstance(first, InvalidTopology) or first.problem is None or first.problem.code != MISSING_INTERNAL_TOPICS:
        return
    made = {topic.name: topic.partitions for topic in first.missing}
    assert made.keys().isdisjoint(counts), "nothing is created twice"
    second = configure(given, known(**counts, **made))
    assert isinstance(second, ConfiguredTopology)
    if second.problem is None:
        assert second.subtopologies == first.subtopologies
    assert second.missing == ()


@pytest.mark.slow
@given(given=topologies(), counts=st.dictionaries(st.sampled_from(["a", "b", "c"]), st.integers(1, 9)), data=st.data())
def test_the_order_of_a_topology_does_not_change_its_configuration(
    given: Topology, counts: dict[str, int], data: st.DataObject
) -> None:
    mixed = Topology(given.epoch, tuple(data.draw(st.permutations(given.subtopologies))))
    first, second = configure(given, known(**counts)), configure(mixed, known(**counts))
    assert first == second


def test_more_partitions_of_a_source_topic_need_more_of_the_internal_topics() -> None:
    topics = known(lines=3)

    assert ready(configure(WORD_COUNT, topics.with_changes([replace_partitions(topics, "lines", 4)]))).missing[0].partitions == 4
    assert ready(configure(WORD_COUNT, topics)).missing[0].partitions == 3


def replace_partitions(topics: KnownTopics, name: str, partitions: int) -> KnownTopic:
    topic = topics.topic(name)
    assert topic is not None
    return topic._replace(shape=TopicShape(partitions))
