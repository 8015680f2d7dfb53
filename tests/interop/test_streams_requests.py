"""Requests of streams groups in each of their states, right and wrong: answered as Apache Kafka 4.3 was seen to, effects included.

`streams_requests.json` was written by Apache Kafka: `--peer=apache-kafka --rewrite-scenarios` writes it anew. Where Ottla differs,
it is in `streams_differences`, with reasons.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.sections import Answers, Section, all_seen, compared, pairs
from tests.support.share_world import ShareWorld, share_world
from tests.support.streams_cases import SETTINGS, STATES, StreamsRequests, streams_cases
from tests.support.streams_differences import STREAMS_DIFFERENCES

SECTIONS = {
    "streams": Section(
        StreamsRequests, list(STATES), streams_cases, Path(__file__).with_name("streams_requests.json"), STREAMS_DIFFERENCES
    )
}


@pytest.fixture(scope="module")
def world(peer_name: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ShareWorld]:
    with share_world(peer_name, tmp_path_factory.mktemp("streams"), SETTINGS) as world:
        yield world


@pytest.fixture(scope="module")
def seen(request: pytest.FixtureRequest, peer_name: str) -> Iterator[Answers]:
    """What Apache Kafka answered."""
    yield from all_seen(SECTIONS, request, peer_name)


@pytest.mark.timeout(300)
@pytest.mark.rows(4, seconds=8)
@pytest.mark.parametrize(("section", "state"), pairs(SECTIONS))
def test_requests_of_streams_groups_are_answered_as_kafka_does(
    world: ShareWorld, seen: Answers, request: pytest.FixtureRequest, section: str, state: str
) -> None:
    wrong = compared(SECTIONS[section], state, world, seen[section], request)
    assert not wrong, "\n".join(wrong)


def test_each_recorded_answer_of_streams_groups_is_of_one_case() -> None:
    names = SECTIONS["streams"].names
    assert sorted(names) == sorted(SECTIONS["streams"].answers)
    assert len(names) > 300


def test_each_difference_of_streams_groups_is_one_of_a_case_and_is_one() -> None:
    section = SECTIONS["streams"]
    known = section.answers
    assert [name for name in STREAMS_DIFFERENCES if section.expected(known, name) == known[name]] == []
