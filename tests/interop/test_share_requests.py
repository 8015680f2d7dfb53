"""Requests of share groups in each of their states, right and wrong: answered as Apache Kafka 4.3 was seen to, effects included.

The files of `share_groups` were written by Apache Kafka: `--peer=apache-kafka --rewrite-scenarios` writes them anew. Where Ottla
differs, it is in `share_differences`, with reasons.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support.recorded import recorded
from tests.support.routes import all_routes
from tests.support.share_acknowledge_cases import STATES as ACKNOWLEDGED
from tests.support.share_acknowledge_cases import Acknowledging, acknowledge_cases
from tests.support.share_differences import DIFFERENCES, expected
from tests.support.share_fetch_cases import STATES as FETCHED
from tests.support.share_fetch_cases import Fetching, fetch_cases
from tests.support.share_group_cases import STATES as GROUPS
from tests.support.share_group_cases import ShareGroupRequests, group_cases
from tests.support.share_state_cases import STATES as STORED
from tests.support.share_state_cases import ShareStates, state_cases
from tests.support.share_world import ShareWorld, share_world

FOLDER = Path(__file__).with_name("share_groups")


class Section(NamedTuple):
    """Requests of one kind: who asks them, the states, and the cases of each."""

    make: Callable[[ShareWorld], Any]
    states: list[str]
    cases: Callable[[str], Any]
    keys: frozenset[int]


SECTIONS = {
    "groups": Section(ShareGroupRequests, list(GROUPS), group_cases, frozenset({76, 77, 90, 91, 92})),
    "fetches": Section(Fetching, list(FETCHED), fetch_cases, frozenset({76, 78, 79})),
    "acknowledgements": Section(Acknowledging, list(ACKNOWLEDGED), acknowledge_cases, frozenset({76, 78, 79})),
    "stored states": Section(ShareStates, list(STORED), state_cases, frozenset({83, 84, 85, 86, 87})),
}
ASKED = [(name, state) for name, section in SECTIONS.items() for state in section.states]


def answers_of(section: str) -> Path:
    """Return where the answers to a section are."""
    return FOLDER / f"{section.replace(' ', '_')}.json"


@pytest.fixture(scope="module")
def world(peer_name: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ShareWorld]:
    if peer_name == "ottla" and 76 not in all_routes():
        pytest.skip("not served yet")
    with share_world(peer_name, tmp_path_factory.mktemp("shares")) as world:
        yield world


@pytest.fixture(scope="module")
def seen(request: pytest.FixtureRequest, peer_name: str) -> Iterator[dict[str, dict[str, Any]]]:
    """What Apache Kafka answered, by section."""
    files = {section: recorded(answers_of(section), request, peer_name) for section in SECTIONS}
    yield {section: next(file) for section, file in files.items()}
    for file in files.values():
        next(file, None)


@pytest.mark.timeout(300)
@pytest.mark.rows(4, seconds=8)
@pytest.mark.parametrize(("section", "state"), ASKED, ids=[f"{section}-{state}" for section, state in ASKED])
def test_requests_of_share_groups_are_answered_as_kafka_does(
    world: ShareWorld,
    seen: dict[str, dict[str, Any]],
    peer_name: str,
    request: pytest.FixtureRequest,
    section: str,
    state: str,
) -> None:
    if peer_name == "ottla" and not SECTIONS[section].keys <= set(all_routes()):
        pytest.skip("not served yet")
    answers = SECTIONS[section].make(world).answers(state)
    known = seen[section]
    if request.config.getoption("--rewrite-scenarios"):
        known.update(answers)
    wanted = {name: expected(known, name) if peer_name == "ottla" else known[name] for name in answers}
    wrong = [f"{name}:\n  {answers[name]}, and expected\n  {wanted[name]}" for name in answers if answers[name] != wanted[name]]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("section", SECTIONS)
def test_each_recorded_answer_of_share_groups_is_of_one_case(section: str) -> None:
    names = [str(case) for state in SECTIONS[section].states for case in SECTIONS[section].cases(state)]
    answers = json.loads(answers_of(section).read_text(encoding="utf-8"))
    assert sorted(names) == sorted(answers)
    assert len(names) > 150


def test_each_difference_of_share_groups_is_one_of_a_case_and_is_one() -> None:
    known = {name: answer for section in SECTIONS for name, answer in json.loads(answers_of(section).read_text()).items()}
    assert [name for name in DIFFERENCES if expected(known, name) == known[name]] == []
