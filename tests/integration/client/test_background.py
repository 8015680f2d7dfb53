"""Hand-overs to the loop of a blocking client: a thread that sends much waits for the loop's turn, and never for its work."""

from __future__ import annotations

import threading

import pytest

import ottla
from ottla.net.client.background import BackgroundLoop
from ottla.net.client.producer import blocking_producer

LONG_S = 60


def test_a_hand_over_waits_until_the_loop_begins_the_function_but_not_for_its_end(background: BackgroundLoop) -> None:
    held, goes_on, begun, ended = (threading.Event() for _ in range(4))

    def work() -> None:
        begun.set()
        goes_on.wait(LONG_S)
        ended.set()

    background.call(lambda: held.wait(0.05))
    background.hand_over(work, LONG_S)
    assert begun.wait(LONG_S), "the function begins, whatever ran before it"
    assert not ended.is_set()
    goes_on.set()
    assert ended.wait(LONG_S)


def test_a_hand_over_to_a_loop_that_is_held_up_ends_after_its_timeout(background: BackgroundLoop) -> None:
    free, called = threading.Event(), threading.Event()
    background.call(lambda: free.wait(LONG_S))
    background.hand_over(called.set, 0.001)
    assert not called.is_set()
    free.set()
    assert called.wait(LONG_S), "the function is called nevertheless"


def test_a_hand_over_on_the_loops_own_thread_or_after_its_end_waits_for_nothing(background: BackgroundLoop) -> None:
    calls: list[str] = []
    background.do(lambda: background.hand_over(lambda: calls.append("own"), LONG_S))
    background.do(lambda: None)
    assert calls == ["own"]
    background.stop()
    background.hand_over(lambda: calls.append("late"), LONG_S)
    assert calls == ["own"]


def test_a_thread_that_only_sends_stays_a_few_batches_ahead_of_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocking_producer, "HAND_OVER_S", LONG_S)
    most = 0
    with ottla.Broker() as broker, ottla.Producer(broker.address, batch_size=1_000) as producer:
        producer.send("t", b"").result()
        for _ in range(3_000):
            producer.send("t", bytes(100))
            most = max(most, producer._accumulator.full_count)
        values = producer.send_values("t", [bytes(100)] * 3_000)
        producer.flush()
        assert sum(count for _, count in values) == 3_000
        assert most <= blocking_producer.MOST_FULL_BATCHES
        assert not producer.unwritten()


def test_a_callback_on_the_loop_sends_many_batches_without_a_wait_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocking_producer, "HAND_OVER_S", LONG_S)
    with ottla.Broker() as broker, ottla.Producer(broker.address, batch_size=1_000) as producer:
        sent = threading.Event()

        def send_more(_: object) -> None:
            for _ in range(200):
                producer.send("t", bytes(100))
            sent.set()

        producer.send("t", b"").add_done_callback(send_more)
        assert sent.wait(LONG_S)
        producer.flush()
