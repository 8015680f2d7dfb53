"""Patterns of subscriptions match what they match in Kafka's own engine, RE2/J, and are refused where it refuses them."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from ottla.coord.patterns import IllegalPattern, matcher
from tests.support.java import run
from tests.unit.coord.test_patterns import NAMES


def random_pattern(chance: random.Random, depth: int = 3) -> str:
    """Mostly one that can be compiled."""
    simple = [
        r"a",
        r"b",
        r"orders",
        r"\.",
        r".",
        r"[a-c]",
        r"[^a]",
        r"\w",
        r"\d",
        r"\pL",
        r"\P{Lu}",
        r"[[:alpha:]]",
        r"\Qa.b\E",
        "é",
    ]
    odd = [
        "(",
        ")",
        "*",
        "+?",
        r"\8",
        "[",
        "(?=a)",
        r"\Z",
        "{2}",
        r"\b",
        "^",
        "$",
        r"\C",
        "(?i)",
        "(?P<n>a)",
        "(?<n>a)",
        "a**",
        "(?U)a+",
    ]
    if depth == 0:
        return chance.choice(odd if chance.random() < 0.08 else simple)
    parts = [random_pattern(chance, depth - 1) for _ in range(chance.randrange(1, 4))]
    whole = chance.choice(["", "", "|"]).join(parts)
    return whole if chance.random() < 0.5 else f"({whole})" + chance.choice(["*", "+", "?", "{1,3}", "", "*?"])


@pytest.mark.java
@pytest.mark.slow
def test_patterns_mean_what_kafkas_engine_makes_of_them() -> None:
    r"""Of RE2/J, that is. It refuses `\C`, a byte, and two groups of one name; both are taken here."""
    chance = random.Random(1)
    written = list(dict.fromkeys(random_pattern(chance) for _ in range(2000)))
    said = run(str(Path(__file__).with_name("KafkaPatterns.java")), *NAMES, stdin="\n".join(written)).splitlines()
    assert len(said) == len(written)
    for pattern, answer in zip(written, said, strict=True):
        only_here = r"\C" in pattern or pattern.count("<n>") > 1
        assert ours(pattern) == answer or (answer == "illegal" and only_here), pattern


def ours(pattern: str) -> str:
    try:
        found = matcher(pattern).match(NAMES)
    except IllegalPattern:
        return "illegal"
    return "matches " + " ".join(name for name in NAMES if name in found)
