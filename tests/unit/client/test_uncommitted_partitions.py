"""Partitions whose records the user got: which are missing in a transaction if the group takes them away."""

from __future__ import annotations

import pytest

from ottla.client.consumer.uncommitted_partitions import UncommittedPartitions
from ottla.client.types import OffsetAndMetadata, TopicPartition

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def made() -> UncommittedPartitions:
    return UncommittedPartitions()


def confirm(made: UncommittedPartitions, **offsets: int) -> None:
    made.confirm({{"a": A, "b": B}[name]: OffsetAndMetadata(offset) for name, offset in offsets.items()})


def test_partitions_whose_records_were_handed_out_are_lost_and_others_are_not(made: UncommittedPartitions) -> None:
    made.hand_out(B, 5)
    made.remove([A, B])
    assert made.pop_lost() == [B]
    assert made.pop_lost() == []


def test_confirmed_offsets_are_not_lost_until_more_is_handed_out(made: UncommittedPartitions) -> None:
    made.hand_out(A, 5)
    made.hand_out(B, 5)
    confirm(made, a=5, b=4)
    made.hand_out(A, 5)  # the same records are noted again while the user has them
    made.remove([A])
    assert made.pop_lost() == []
    made.hand_out(A, 6)
    made.remove([A, B])
    assert made.pop_lost() == [A, B]


def test_an_offset_that_was_confirmed_just_before_the_group_took_its_partition_is_not_lost(made: UncommittedPartitions) -> None:
    made.hand_out(A, 5)
    made.hand_out(B, 9)
    made.remove([A, B])
    confirm(made, a=5, b=8)
    assert made.pop_lost() == [B]


def test_partitions_that_the_group_took_while_their_offsets_were_sent_are_found(made: UncommittedPartitions) -> None:
    made.hand_out(A, 5)
    made.hand_out(B, 9)
    assert made.find_lost([A, B]) == []
    made.remove([B])
    assert made.find_lost([A, B]) == [B]
    assert made.find_lost([A]) == []


def test_after_a_seek_backwards_what_was_confirmed_does_not_count(made: UncommittedPartitions) -> None:
    made.hand_out(A, 9)
    confirm(made, a=9)
    made.reposition([A])
    made.hand_out(A, 3)
    made.remove([A])
    assert made.pop_lost() == [A]


def test_a_partition_that_comes_back_begins_anew(made: UncommittedPartitions) -> None:
    made.hand_out(A, 9)
    confirm(made, a=9)
    made.remove([A])
    made.hand_out(A, 3)  # another member had committed less
    made.remove([A])
    assert made.pop_lost() == [A]


def test_what_is_given_up_with_an_aborted_transaction_is_not_lost(made: UncommittedPartitions) -> None:
    made.hand_out(A, 9)
    made.remove([A])
    made.hand_out(B, 9)
    made.abandon([B])
    made.remove([B])
    assert made.pop_lost() == []
