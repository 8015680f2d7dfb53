"""The tests' own watch over brokers: what an entry is, which ones are bad, and that quick housekeeping is a default only."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from ottla.testing import BrokerProcess
from tests.support.watched import HOUSEKEEPING, Watch, kept, unexpected

GOOD = "2026-01-01T00:00:00.000Z INFO    ottla.net: all is well\n"
BAD = "2026-01-01T00:00:01.000Z ERROR   ottla.net: a sync failed\nTraceback (most recent call last):\n  File\nKeyError\n"
JSON = '{"time": "2026-01-01T00:00:02.000Z", "level": "CRITICAL", "message": "the broker ends"}\n'
ALIEN = "Exception in callback f()\nTraceback (most recent call last):\nValueError\n"


def test_settings_of_a_test_go_before_quick_housekeeping() -> None:
    assert kept(None) == HOUSEKEEPING
    assert kept({"log.cleaner.backoff.ms": 7})["log.cleaner.backoff.ms"] == 7


@pytest.mark.expects_errors("a sync failed", "the broker ends", "Exception in callback")
def test_each_bad_entry_of_a_served_broker_is_told_once(tmp_path: Path) -> None:
    watch, broker = Watch(), BrokerProcess(tmp_path / "data")
    watch.add(broker)
    broker.log_path.write_text(GOOD + BAD + GOOD + JSON)
    assert list(watch.errors()) == [BAD, JSON]
    watch.add(broker)
    broker.log_path.write_text(ALIEN + GOOD)
    assert list(watch.errors()) == [ALIEN]


@pytest.mark.expects_errors("on purpose")
def test_errors_of_brokers_in_this_process_are_told_and_those_of_clients_are_not() -> None:
    watch = Watch()
    assert list(watch.errors()) == []
    logging.getLogger("ottla.broker").error("on purpose")
    logging.getLogger("ottla.client").error("theirs")
    assert list(watch.errors()) == ["on purpose"]


def test_what_a_pattern_speaks_of_is_expected() -> None:
    assert unexpected(iter([BAD, JSON]), ["a sync .*ed"]) == [JSON]
