"""Which changes of a client's connections are logged: each once, and few of a broker whose connections come and go."""

from __future__ import annotations

import logging

import pytest

from ottla.client.errors import AuthenticationFailed, ConnectionFailed
from ottla.net.client.cluster import LINES_AT_ONCE, REGAINED_MS, ConnectionLog

GONE = ConnectionFailed("No connection to a:1: Connection refused.")


def test_a_change_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "ottla.client")
    log = ConnectionLog("me")
    for now_ms in range(0, 60_000, 1_000):
        log.log_connected("a:1", now_ms)
    for now_ms in range(60_000, 120_000, 1_000):
        log.log_lost("a:1", GONE, now_ms)
    log.log_connected("b:1", 120_000)
    log.log_connected("a:1", 120_000)
    assert caplog.messages == [
        "me: connected to a:1",
        "me: No connection to a:1: Connection refused; it is tried again",
        "me: connected to b:1",
        "me: connected to a:1",
    ]


def test_what_does_not_help_is_not_said_to_be_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "ottla.client")
    ConnectionLog("me").log_lost("a:1", AuthenticationFailed("a:1 refused the login."), 0)
    assert caplog.messages == ["me: a:1 refused the login"]


def test_a_broker_that_comes_and_goes_each_second_is_logged_seldom(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "ottla.client")
    log = ConnectionLog(None)
    for second in range(600):
        log.log_connected("a:1", second * 1_000)
        log.log_lost("a:1", GONE, second * 1_000 + 500)
    assert len(caplog.messages) <= LINES_AT_ONCE + 600_000 // REGAINED_MS


def test_the_last_line_about_a_broker_that_came_and_went_and_is_gone_says_so(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "ottla.client")
    log = ConnectionLog("me")
    for second in range(30):
        log.log_connected("a:1", second * 1_000)
        log.log_lost("a:1", GONE, second * 1_000 + 500)
    for second in range(30, 300):
        log.log_lost("a:1", GONE, second * 1_000)
    assert caplog.messages[-1] == "me: No connection to a:1: Connection refused; it is tried again"
