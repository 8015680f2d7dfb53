"""A user's own assignor that makes mistakes does no harm: nothing moves, and the log says what is wrong."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import pytest

from ottla.coord.consumer.assign import Partitions, Subscriber, TopicShape
from ottla.coord.consumer.assign.checked_assignor import Checked
from tests.support.assignments import topic_id

A, B = topic_id(1), topic_id(2)
OWNED = {A: frozenset({0, 1})}
MEMBERS = {"m-1": Subscriber(frozenset({A}), owned=OWNED), "m-2": Subscriber(frozenset({A}))}
TOPICS = {A: TopicShape(4), B: TopicShape(1)}


class Says:
    """Answers what it was told to answer."""

    name = "says"

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def assign(self, subscribers: Mapping[str, Subscriber], topics: Mapping[bytes, TopicShape]) -> Mapping[str, Partitions]:
        if isinstance(self.answer, Exception):
            raise self.answer
        answer: Mapping[str, Partitions] = self.answer
        return answer


def test_a_right_answer_is_taken_over() -> None:
    checked = Checked(Says({"m-1": {A: [0, 1]}, "m-2": {A: {2, 3}, B: set()}}))
    assigned = checked.assign(MEMBERS, TOPICS)
    assert checked.name == "says"
    assert assigned == {"m-1": OWNED, "m-2": {A: frozenset({2, 3})}}
    assert assigned["m-1"] is OWNED


def test_members_without_partitions_may_be_missing() -> None:
    assert Checked(Says({"m-1": {A: range(4)}})).assign(MEMBERS, TOPICS) == {"m-1": {A: frozenset(range(4))}, "m-2": {}}


@pytest.mark.expects_errors("repair the assignor")
@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (ValueError("no idea"), "it raised ValueError('no idea')"),
        (None, "it raised AttributeError"),
        ({"m-1": 7}, "it raised AttributeError"),
        ({"m-1": {A: {0, 1, 2, 3}}, "m-2": {A: {3}}}, "or assigns some twice"),
        ({"m-1": {A: {0, 1, 2, 4}}}, "that its topic does not have"),
        ({"m-1": {A: {0, 1, 2, "3"}}}, "it raised TypeError"),
        ({"m-1": {A: range(4), B: {0}}}, "to which it does not subscribe"),
        ({"m-1": {A: {0, 1, 2}}}, "it leaves 1 partitions unassigned"),
        ({"m-1": {A: range(4)}, "m-3": {}}, "assigns partitions to m-3, which is not a member"),
    ],
    ids=["raises", "none", "no-mapping", "twice", "beyond", "no-number", "unsubscribed", "left", "stranger"],
)
def test_a_wrong_answer_changes_nothing_and_is_told(answer: Any, reason: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR, "ottla.coord"):
        assert Checked(Says(answer)).assign(MEMBERS, TOPICS) == {"m-1": OWNED, "m-2": {}}
    assert "assignor says: " in caplog.text
    assert reason in caplog.text
