"""Records that were not written, counted until their sender asks."""

from __future__ import annotations

import pytest

from ottla.client.errors import ConnectionFailed, KafkaError
from ottla.client.producer.accumulator import PendingBatch
from ottla.client.producer.unreported_failures import Losses, count_text
from ottla.client.types import TopicPartition


def failed(losses: Losses, topic: str, count: int) -> PendingBatch:
    batch = PendingBatch(TopicPartition(topic, 0), 0, 0, 1000)
    for _ in range(count):
        batch.add(None, b"v", None, 7)
    losses.add(batch, ConnectionFailed("gone"))
    batch.finish(error=ConnectionFailed("gone"))
    return batch


def test_losses_are_told_once_by_topic_with_the_first_error() -> None:
    losses = Losses()
    failed(losses, "b", 2)
    failed(losses, "a", 1)
    lost = losses.pop_error()
    assert lost is not None
    assert str(lost) == "Not written: 1 record of topic a, 2 of topic b. The first error: gone"
    assert lost.topics == {"a": 1, "b": 2}
    assert isinstance(lost.__cause__, ConnectionFailed)
    assert losses.pop_error() is None


def test_a_record_whose_result_was_asked_for_is_no_loss() -> None:
    losses = Losses()
    batch = failed(losses, "t", 3)
    for index in (0, 2, 0):
        with pytest.raises(KafkaError):
            batch.outcome(index)
    assert losses.snapshot() == {"t": 1}
    with pytest.raises(KafkaError):
        batch.outcome(1)
    assert losses.pop_error() is None


def test_a_result_that_is_asked_for_late_does_not_hide_a_newer_loss() -> None:
    losses = Losses()
    early = failed(losses, "t", 1)
    assert losses.pop_error() is not None
    failed(losses, "t", 1)
    with pytest.raises(KafkaError):
        early.outcome(0)
    assert losses.snapshot() == {"t": 1}


def test_numbers_of_records_read_as_a_sentence() -> None:
    assert count_text({"a": 0}) == "no record"
    assert count_text({"a": 1, "b": 1}) == "1 record of topic a, 1 of topic b"
    assert count_text({"a": 3}) == "3 records of topic a"
