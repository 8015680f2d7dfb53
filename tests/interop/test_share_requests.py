"""Requests of share groups in each of their states, right and wrong: answered as Apache Kafka 4.3 was seen to, effects included.

The files of `share_groups` were written by Apache Kafka: `--peer=apache-kafka --rewrite-scenarios` writes them anew. Where Ottla
differs, it is in `share_differences`, with reasons.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.sections import Answers, Section, all_seen, compared, pairs
from tests.support.share_acknowledge_cases import STATES as ACKNOWLEDGED
from tests.support.share_acknowledge_cases import Acknowledging, acknowledge_cases
from tests.support.share_differences import DIFFERENCES
from tests.support.share_fetch_cases import STATES as FETCHED
from tests.support.share_fetch_cases import Fetching, fetch_cases
from tests.support.share_group_cases import STATES as GROUPS
from tests.support.share_group_cases import ShareGroupRequests, group_cases
from tests.support.share_state_cases import STATES as STORED
from tests.support.share_state_cases import ShareStates, state_cases
from tests.support.share_world import ShareWorld, share_world

FOLDER = Path(__file__).with_name("share_groups")
SECTIONS = {
    "groups": Section(ShareGroupRequests, list(GROUPS), group_cases, FOLDER / "groups.json", DIFFERENCES),
    "fetches": Section(Fetching, list(FETCHED), fetch_cases, FOLDER / "fetches.json", DIFFERENCES),
    "acknowledgements": Section(
        Acknowledging, list(ACKNOWLEDGED), acknowledge_cases, FOLDER / "acknowledgements.json", DIFFERENCES
    ),
    "stored states": Section(ShareStates, list(STORED), state_cases, FOLDER / "stored_states.json", DIFFERENCES),
}


@pytest.fixture(scope="module")
def world(peer_name: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ShareWorld]:
    with share_world(peer_name, tmp_path_factory.mktemp("shares")) as world:
        yield world


@pytest.fixture(scope="module")
def seen(request: pytest.FixtureRequest, peer_name: str) -> Iterator[Answers]:
    """What Apache Kafka answered, by section."""
    yield from all_seen(SECTIONS, request, peer_name)


@pytest.mark.timeout(300)
@pytest.mark.rows(4, seconds=8)
@pytest.mark.parametrize(("section", "state"), pairs(SECTIONS))
def test_requests_of_share_groups_are_answered_as_kafka_does(
    world: ShareWorld, seen: Answers, request: pytest.FixtureRequest, section: str, state: str
) -> None:
    wrong = compared(SECTIONS[section], state, world, seen[section], request)
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("section", SECTIONS)
def test_each_recorded_answer_of_share_groups_is_of_one_case(section: str) -> None:
    names = SECTIONS[section].names
    assert sorted(names) == sorted(SECTIONS[section].answers)
    assert len(names) > 150


def test_each_difference_of_share_groups_is_one_of_a_case_and_is_one() -> None:
    wrong: list[str] = []
    found: set[str] = set()
    for section in SECTIONS.values():
        known = section.answers
        wrong += [name for name in DIFFERENCES if name in known and section.expected(known, name) == known[name]]
        found |= known.keys()
    assert wrong == []
    assert DIFFERENCES.keys() <= found
