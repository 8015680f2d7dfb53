"""Interceptors are called in order, and what one of them raises changes nothing."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from ottla.client.errors import SettingError
from ottla.client.interceptors import ConsumerInterceptors, ProducerInterceptors, ProducerRecord
from ottla.client.settings.clients import ConsumerSettings, ProducerSettings, parse
from ottla.client.types import ConsumerRecord, OffsetAndMetadata, TopicPartition


class Append:
    """An interceptor of both kinds of clients, which notes its calls."""

    def __init__(self, letter: bytes, calls: list[object]) -> None:
        self.letter, self.calls = letter, calls

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        return record._replace(value=record.value + self.letter)

    def on_consume(self, records: list[ConsumerRecord[Any, Any]]) -> list[ConsumerRecord[Any, Any]]:
        return records[1:]

    def on_acknowledgement(self, record: ProducerRecord, metadata: object, error: object) -> None:
        self.calls.append((self.letter, record.value, metadata, error))

    def on_commit(self, offsets: object) -> None:
        self.calls.append((self.letter, offsets))

    def close(self) -> None:
        self.calls.append((self.letter, "close"))


class Broken:
    """An interceptor that always raises, but in `on_send` on even calls, when it returns nothing."""

    count = 0

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        self.count += 1
        if self.count % 2 == 0:
            return None  # type: ignore[return-value]  # the mistake
        raise ZeroDivisionError("sent")

    def on_consume(self, records: list[ConsumerRecord[Any, Any]]) -> list[ConsumerRecord[Any, Any]]:
        raise ZeroDivisionError("consumed")

    def on_acknowledgement(self, *given: object) -> None:
        raise ZeroDivisionError("acknowledged")

    def on_commit(self, offsets: object) -> None:
        raise ZeroDivisionError("committed")

    def close(self) -> None:
        raise ZeroDivisionError("closed")


def test_each_gets_what_the_one_before_returned() -> None:
    calls: list[object] = []
    chain = ProducerInterceptors([Append(b"1", calls), Broken(), Append(b"2", calls)])
    record = chain.on_send(ProducerRecord("flights", b"v"))
    assert record.value == b"v12"
    assert chain.on_send(ProducerRecord("flights", b"w")).value == b"w12"  # one that returns nothing is passed over
    chain.on_acknowledgement(record, None, None)
    chain.close()
    assert calls == [(b"1", b"v12", None, None), (b"2", b"v12", None, None), (b"1", "close"), (b"2", "close")]


def test_consumers_have_chains_too() -> None:
    calls: list[object] = []
    chain = ConsumerInterceptors([Append(b"1", calls), Broken(), Append(b"2", calls)])
    where = TopicPartition("flights", 0)
    records = [ConsumerRecord(offset, 0, 0, None, b"v", (), where) for offset in range(3)]
    assert [record.offset for record in chain.on_consume(records)] == [2]
    chain.on_commit({where: OffsetAndMetadata(3)})
    assert calls == [(b"1", {where: OffsetAndMetadata(3)}), (b"2", {where: OffsetAndMetadata(3)})]


def test_the_failures_of_one_method_are_logged_more_and_more_seldom(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR, "ottla.client")
    chain = ConsumerInterceptors([Broken()])
    for _ in range(100):
        chain.on_consume([])
    assert [record.getMessage().split(" failed ")[1].split(" times")[0] for record in caplog.records] == [
        str(1 << power) for power in range(7)
    ]
    assert [record.exc_info is not None for record in caplog.records] == [True] + [False] * 6


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ("Append", "must be a list of objects with on_send or on_acknowledgement, not 'Append'"),
        (3, "must be a list of objects"),
        ([3], "must be objects with on_send or on_acknowledgement, which int does not have"),
        ([Append], "not the class Append: create one"),
    ],
)
def test_what_is_no_interceptor_is_refused(given: object, sentence: str) -> None:
    with pytest.raises(SettingError, match=sentence):
        parse(ProducerSettings, {"interceptors": given})


def test_interceptors_of_consumers_have_other_methods() -> None:
    class Sends:
        def on_send(self, record: ProducerRecord) -> ProducerRecord:
            return record

    with pytest.raises(SettingError, match="on_consume or on_commit, which Sends does not have"):
        parse(ConsumerSettings, {"interceptors": [Sends()]})
