"""Patterns of subscriptions mean what they mean to Kafka, and none of them can hold up a broker."""

from __future__ import annotations

import random
import subprocess
import sys
import time

import pytest

from ottla.coord import patterns
from ottla.coord.patterns import IllegalPattern, matcher

NAMES = ("a", "ab", "abc", "b", "xa", "orders", "orders.eu", "orders_us", "Orders", "0", "-", "a.b-c_d")
MOST_AT_ONCE_S = 0.5
"""Processor time that nothing may take in one go, generously: the machine that tests may be slow and is not alone."""


def test_a_pattern_means_the_topics_whose_whole_name_it_matches() -> None:
    assert matcher("a|ab").match(NAMES) == {"a", "ab"}
    assert matcher("orders.*").match(NAMES) == {"orders", "orders.eu", "orders_us"}
    assert matcher(r"(?i)orders").match(NAMES) == {"orders", "Orders"}
    assert matcher(r"\p{Lu}\w+|\d|[.-]").match(NAMES) == {"Orders", "0", "-"}
    assert matcher("nothing").match(NAMES) == matcher("").match(NAMES) == frozenset()


@pytest.mark.parametrize("pattern", ["(", "a**", "(?=a)", r"\1", "a{1001}", "[b-a]", "*", "\\", r"(?<!a)b", r"\p{Nix}"])
def test_what_is_no_pattern_is_refused_with_a_sentence(pattern: str) -> None:
    with pytest.raises(IllegalPattern, match=r"It cannot be compiled: .+\."):
        matcher(pattern)


def test_text_that_no_name_can_have_is_no_pattern_or_means_nothing() -> None:
    with pytest.raises(IllegalPattern):
        matcher("\ud800")
    assert matcher("é+|\x00").match(NAMES) == frozenset()


def test_parts_find_the_same_in_many_steps() -> None:
    names = [f"{number:03}" for number in range(1000)]
    slow = matcher("(?:[0-9]?){1000}1")
    found: set[str] = set()
    steps = end = 0
    while end < len(names):
        part, end = slow.part(names, end)
        found |= part
        steps += 1
    assert steps > 1
    assert found == slow.match(names) == {name for name in names if name[-1] == "1"}
    assert slow.part([], 0) == (frozenset(), 0)


HOSTILE = {
    "nested stars": "((((a*)*)*)*)*b",
    "classic": "(x+x+)+y",
    "optional": "(a?){200}a{200}",
    "no prefix": "(?:.?.?.?.?.?){640}x",
    "far behind": "[ab]*a[ab]{240}c|" * 40 + "d",
    "many classes": r"(?i)\PL" * 2000,
    "most classes": "(?i)" + r"\PL*" * patterns.MOST_CLASSES,
    "long": "a" * 1_000_000,
    "repetitions": "a{1000}" * 1170,
    "repeated repetitions": "((a{30}){30}){30}",
    "negated": "[^a]{999}" * 900,
    "brackets": "(" * 4000 + ")" * 4000,
    "open brackets": "(" * 8000,
    "folded": "(?i)" + "k{999}" * 1300,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_no_pattern_takes_long_in_one_go(name: str) -> None:
    """Neither to be refused or compiled, nor for one part of names made to fit it."""
    chance = random.Random(name)
    names = ["".join(chance.choice("ab") for _ in range(249)) for _ in range(64)]
    began = time.process_time()
    try:
        found = matcher(HOSTILE[name])
    except IllegalPattern:
        found = None
    assert time.process_time() - began < MOST_AT_ONCE_S
    if found is not None:
        began = time.process_time()
        found.part(names, 0)
        assert time.process_time() - began < MOST_AT_ONCE_S


def test_a_broker_without_the_engine_says_what_is_missing() -> None:
    code = "import sys; sys.modules['re2'] = None\nfrom ottla.coord.patterns import matcher\nmatcher('a')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "IllegalPattern: This broker has no regular expressions: install google-re2" in done.stderr
