"""The first signal ends a command's waits and sets its exit code; a second one ends the process."""

from __future__ import annotations

import os
import select
import signal
import threading
import time

import pytest

from ottla.cli.command.signals import Interruption


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_waits(number: signal.Signals) -> None:
    kept = signal.getsignal(number)
    done: list[str] = []

    def wait_for_brokers() -> None:
        os.kill(os.getpid(), number)
        time.sleep(20)

    with Interruption() as interruption:
        interruption.attempt(lambda: done.append("before"))
        interruption.attempt(wait_for_brokers)
        interruption.attempt(lambda: done.append("after"))
        interruption.sleep(20)
        assert signal.getsignal(number) is signal.SIG_DFL
        assert (done, interruption.stop.is_set(), interruption.exit_code) == (["before"], True, 128 + number)
    assert signal.getsignal(number) == kept


def test_a_hangup_that_nohup_ignores_ends_nothing() -> None:
    kept = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Interruption() as interruption:
            os.kill(os.getpid(), signal.SIGHUP)
            assert not interruption.stop.is_set()
    finally:
        signal.signal(signal.SIGHUP, kept)


def test_a_signal_outside_of_waits_lets_work_finish() -> None:
    with Interruption() as interruption:
        os.kill(os.getpid(), signal.SIGINT)
        assert interruption.stop.is_set()


def test_an_error_of_the_work_is_raised_and_a_later_signal_is_not() -> None:
    with Interruption() as interruption:
        with pytest.raises(ZeroDivisionError):
            interruption.attempt(lambda: 1 / 0)
        os.kill(os.getpid(), signal.SIGINT)
        assert interruption.stop.is_set()


def test_a_signal_just_before_a_wait_ends_it() -> None:
    """Python has the signal, and runs its handler only after the wait has begun."""
    with Interruption() as interruption:
        ready = select.poll()
        ready.register(interruption.wake, select.POLLIN)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
        os.kill(os.getpid(), signal.SIGTERM)

        def take() -> None:
            time.sleep(0.2)  # the main thread is in `poll`, which a signal to another thread does not interrupt
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])

        taken_by = threading.Thread(target=take)
        taken_by.start()
        try:
            assert ready.poll(5_000)
        finally:
            taken_by.join()
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
        assert interruption.stop.is_set()
