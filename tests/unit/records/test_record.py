"""A record as an object does what a NamedTuple does, compiled or not."""

from __future__ import annotations

import copy
import gc
import pickle

import pytest

from ottla.client.types import ConsumerRecord, TopicPartition, record_type
from ottla.records import kernel_record
from ottla.records.build import build
from ottla.records.columns import Record, open_batches

Fields = tuple[int, int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]

FIELDS: Fields = (7, 1_700_000_000_000, 0, b"key", None, (("name", b"value"), ("none", None)))
RECORD = Record(*FIELDS)


def test_it_has_its_fields_in_order() -> None:
    assert (RECORD.offset, RECORD.timestamp, RECORD.timestamp_type, RECORD.key, RECORD.value, RECORD.headers) == FIELDS
    assert tuple(RECORD) == FIELDS
    assert (len(RECORD), RECORD[0], RECORD[-1], RECORD[3:5]) == (6, 7, FIELDS[5], (b"key", None))
    assert Record(1, 2, 0, None, b"").headers == ()
    offset, *_, headers = RECORD
    assert (offset, headers) == (7, FIELDS[5])


def test_it_is_compared_by_them() -> None:
    assert Record(*FIELDS) == RECORD
    later = RECORD._replace(offset=8)
    assert RECORD == FIELDS
    assert later != RECORD
    assert len({RECORD, Record(*FIELDS), FIELDS}) == 1
    assert sorted([later, RECORD]) == [RECORD, later]
    assert RECORD._asdict() == dict(zip(Record._fields, FIELDS, strict=True))


def test_it_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        RECORD.offset = 8  # type: ignore[misc]  # that is the question
    with pytest.raises(AttributeError):
        RECORD.other = 8  # type: ignore[attr-defined]  # that is the question


def test_it_is_copied_pickled_and_matched() -> None:
    for record in (RECORD, record_type(TopicPartition("t", 3))(*FIELDS)):
        for again in (copy.copy(record), pickle.loads(pickle.dumps(record))):
            assert (again, type(again)) == (record, type(record))
    match RECORD:
        case Record(offset, _, key=key):
            assert (offset, key) == (7, b"key")


def test_it_says_what_is_in_it() -> None:
    assert repr(Record(1, 2, 0, None, b"v")) == "Record(offset=1, timestamp=2, timestamp_type=0, key=None, value=b'v', headers=())"


def test_records_of_a_subclass_are_made_as_such() -> None:
    kind = record_type(TopicPartition("t", 3))
    (record,) = open_batches(build([b"k"], [b"v"], 5, [[("h", b"x")]], base_offset=4)).records(kind)
    assert isinstance(record, ConsumerRecord)
    assert (record.topic, record.partition, tuple(record)) == ("t", 3, (4, 5, 0, b"k", b"v", (("h", b"x"),)))


def test_the_collector_does_not_follow_it() -> None:
    if not kernel_record.COMPILED:
        pytest.skip("the kernel is not compiled: install a C compiler, then Ottla again")
    assert not gc.is_tracked(open_batches(build(None, [b"v"], 5)).records()[0])
    with pytest.raises(TypeError, match="no Record"):
        open_batches(build(None, [b"v"], 5)).records(tuple)  # type: ignore[type-var]  # that is the question
