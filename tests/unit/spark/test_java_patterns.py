"""Patterns of Java find the same topics here; `tests/spark/test_java_regex.py` asks Java itself."""

from __future__ import annotations

import re

import pytest

from ottla.spark.errors import OptionError
from ottla.spark.java_patterns import NotJava, translate
from ottla.spark.texts import pattern


@pytest.mark.parametrize(
    ("java", "python"),
    [
        ("flights-.*", "flights-.*"),
        (r"\p{Lower}+-\d+", "[a-z]+-[0-9]+"),
        ("[a-f&&[^bc]]", "[adef]"),
        (r"[^\p{Alpha}._-]+", "[0-9]+"),
        (r"\Qa.b\E+", r"a\.b+"),
        ("(?i)ab(?-i)c", "[Aa][Bb]c"),
        (r"(?<stem>a+)-\k<stem>", r"(?P<stem>a+)-(?:\1)"),
        (r"\p{IsGreek}|\h", None),
        (r"\h|a", "(?!)|a"),
        ("a*+b", "a*+b"),
    ],
)
def test_what_python_lacks_becomes_what_it_has(java: str, python: str | None) -> None:
    if python is None:
        with pytest.raises(NotJava, match="IsGreek"):
            translate(java)
    else:
        assert translate(java) == python


@pytest.mark.parametrize(
    ("java", "why"),
    [
        ("(", "a group is not closed"),
        ("a)", "closed that was not opened"),
        ("*a", "nothing stands before *"),
        ("a{2}{3}", "nothing stands before {"),
        ("[", "not closed"),
        ("[z-a]", "runs backwards"),
        ("[a&&]", "not closed"),
        (r"\y", r"no escape \y"),
        (r"\p{Klingon}", "Klingon"),
        ("(?P<name>a)", "no flag P"),
        ("(?<=a|bc)d", "fixed-width"),
        ("a\\", "ends too early"),
        (r"\x{110000}", "no number of a letter"),
    ],
)
def test_what_is_no_pattern_of_java_is_told_with_its_place(java: str, why: str) -> None:
    with pytest.raises(OptionError, match=re.escape(why)):
        pattern("subscribePattern", java)


def test_a_pattern_in_pieces_is_refused_or_translated_and_never_breaks() -> None:
    whole = r"(?x)[a-c&&[^b]]\p{Lower}*+(?<n>\d{2,3}?)\k<n>\Q.x\E(?i:y)(?!z)\b\x41\u0042\0101\cA|\N{FULL STOP}[\Q-\E\w]$"
    pieces = [whole[start:end] for start in range(len(whole)) for end in range(start + 1, len(whole) + 1)]
    reasons = []
    for piece in pieces:
        try:
            made = translate(piece)
        except NotJava as refused:
            reasons.append(str(refused))
        else:
            assert re.compile(made).groups <= piece.count("("), piece
    assert all(reasons)
    assert 0 < len(reasons) < len(pieces)
