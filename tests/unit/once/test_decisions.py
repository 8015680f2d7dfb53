"""Records of decisions are read as they were written, and later; what nobody understands is refused, never guessed at."""

from __future__ import annotations

import json

import pytest

from ottla.client.types import TopicPartition
from ottla.once.decisions import BatchDecision, BatchVerdict, Handed, UnreadableDecision, decode, encode

DECISION = BatchDecision(
    "run", 7, BatchVerdict.WRITTEN, (Handed("a", 1, 2, 3, (TopicPartition("t", 0),)), Handed("b", 4, 5, 6, (), (8, 9))), 10
)


def changed(**fields: object) -> bytes:
    return json.dumps({**json.loads(encode("query", DECISION)[1]), **fields}).encode()


def test_a_decision_is_read_as_it_was_written() -> None:
    assert decode(*encode("query", DECISION)) == DECISION


def test_fields_that_a_later_version_adds_are_passed_over() -> None:
    assert decode(b"query", changed(operator="night")) == DECISION


def test_a_decision_of_before_transactions_were_prepared_is_read() -> None:
    found = json.loads(changed())
    for each in found["transactions"]:
        each.pop("prepared", None)
    assert [each.ends_as for each in decode(b"query", json.dumps(found).encode()).transactions] == [(1, 2), (4, 5)]


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (changed(version=2), r"written by a newer Ottla \(version 2\): run this query or job with that one"),
        (changed(verdict="perhaps"), "is damaged, or something else was written into its topic"),
        (b"{}", "Name another topic in option decisionTopic"),
        (b"\xff", "is damaged"),
        (b"[]", "is damaged"),
    ],
)
def test_what_is_not_understood_is_refused(value: bytes, sentence: str) -> None:
    with pytest.raises(UnreadableDecision, match=sentence):
        decode(b"query", value)
