"""Lines that a peer or a disk can cause again and again: one for each cause and second, which tells what was left out."""

from __future__ import annotations

import logging
import re

import pytest

import ottla
from ottla.net.startup.log_output import LIMITED, MOST_CAUSES, Limiter
from tests.tree.source import ROOT

PEERS = {"ottla.client", "ottla.pipelines", "ottla.spark"}
"""Loggers of programs that use a broker."""


class Told:
    """Records that passed the limiter, by what they say. `at_s` is the clock of the records."""

    def __init__(self) -> None:
        self.at_s = 1_000_000.0
        self._limiter = Limiter()
        self.lines: list[str] = []

    def say(self, message: str, *args: object, cause: str | None = None, most: int | None = None) -> None:
        record = logging.LogRecord("ottla.net", logging.WARNING, "", 0, message, args, None)
        record.created = self.at_s
        if cause is not None:
            record.cause = cause
        if most is not None:
            record.most = most
        if self._limiter.filter(record):
            self.lines.append(record.getMessage())


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.mark.parametrize("cause", [None, "group"])
@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("g\n2026-11-25T00:00:00Z INFO ottla.net: stopped", "g\\n2026-11-25T00:00:00Z INFO ottla.net: stopped"),
        ("a\rb\x1b[2Jc\0", "a\\rb\\x1b[2Jc\\x00"),
        ("\u2028\x85\ud800", "\\u2028\\x85\\ud800"),
        ("größe 名 🙂", "größe 名 🙂"),
        ("n" * 32_767, "n" * (10_000 - len("group "))),
    ],
)
def test_no_name_that_a_client_chose_makes_a_line_of_its_own(told: Told, name: str, shown: str, cause: str | None) -> None:
    told.say("group %s", name, cause=cause)
    (line,) = told.lines
    assert line.isprintable()
    assert line.split("…")[0] == f"group {shown}"
    assert len(line) < 10_100


def test_a_line_without_a_cause_is_never_left_out(told: Told) -> None:
    for number in range(100):
        told.say("%d", number)
    assert told.lines == [str(number) for number in range(100)]


def test_one_line_per_cause_and_second_and_the_next_one_tells_how_many_were_left_out(told: Told) -> None:
    for number in range(100):
        told.say("refused %d", number, cause="refused")
        told.say("full %d", number, cause="full")
    told.at_s += 1
    told.say("refused %d", 100, cause="refused")
    told.at_s += 1
    told.say("refused %d", 101, cause="refused")
    assert told.lines == [
        "refused 0",
        "full 0",
        "refused 100 (99 similar messages were left out since the last line)",
        "refused 101",
    ]


def test_a_cause_may_have_more_lines_in_a_second(told: Told) -> None:
    for number in range(10):
        told.say("%d", number, cause="group", most=3)
    told.at_s += 1
    told.say("%d", 10, cause="group", most=3)
    assert told.lines == ["0", "1", "2", "10 (7 similar messages were left out since the last line)"]


def test_a_clock_that_is_set_back_silences_nothing(told: Told) -> None:
    told.say("full", cause="full")
    told.at_s -= 3600
    told.say("full", cause="full")
    assert told.lines == ["full", "full"]


def test_causes_without_end_do_not_grow_memory(told: Told) -> None:
    for number in range(3 * MOST_CAUSES):
        told.say("x", cause=str(number))
    assert len(told._limiter._told) <= MOST_CAUSES


def test_every_logger_of_a_broker_is_limited_in_an_embedded_one_too() -> None:
    sources = [path.read_text() for path in (ROOT / "src" / "ottla").rglob("*.py")]
    named = {name for source in sources for name in re.findall(r'getLogger\("(ottla\.\w+)"\)', source)}
    assert named - PEERS <= set(LIMITED)
    with ottla.Broker():
        for name in LIMITED:
            assert sum(isinstance(each, Limiter) for each in logging.getLogger(name).filters) == 1
