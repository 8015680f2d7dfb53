"""A record as an object does what a NamedTuple does, compiled or not."""

from __future__ import annotations

import copy
import gc
import pickle
import sys
from pathlib import Path
from types import ModuleType

import pytest

from ottla.client.types import TopicPartition
from ottla.records import kernel_record
from ottla.records.batches import columns as columns_module
from ottla.records.batches import record as record_module
from ottla.records.batches.builder import build
from ottla.records.batches.columns import open_batches
from ottla.records.batches.record import ConsumerRecord, Record
from tests.unit.records.conftest import uncompiled

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
    for record in (RECORD, ConsumerRecord(*FIELDS, TopicPartition("t", 3))):
        for again in (copy.copy(record), pickle.loads(pickle.dumps(record)), record._replace()):
            assert (again, type(again), repr(again)) == (record, type(record), repr(record))
    match RECORD:
        case Record(offset, _, key=key):
            assert (offset, key) == (7, b"key")


def test_it_says_what_is_in_it() -> None:
    assert repr(Record(1, 2, 0, None, b"v")) == "Record(offset=1, timestamp=2, timestamp_type=0, key=None, value=b'v', headers=())"


def test_those_of_a_partition_say_where_they_come_from() -> None:
    where = TopicPartition("t", 3)
    (record,) = open_batches(build([b"k"], [b"v"], 5, [[("h", b"x")]], base_offset=4)).records(where)
    assert issubclass(ConsumerRecord, Record)
    assert isinstance(record, ConsumerRecord)
    assert (record.topic, record.partition, tuple(record)) == ("t", 3, (4, 5, 0, b"k", b"v", (("h", b"x"),)))
    assert record.where is where
    assert record == tuple(record)
    assert repr(record) == "t-3@4(timestamp=5, key=b'k', value=b'v')"
    moved = record._replace(offset=9)
    assert (moved.offset, moved.where) == (9, where)


def test_the_collector_follows_none() -> None:
    if not kernel_record.COMPILED:
        pytest.skip("the kernel is not compiled: install a C compiler, then reinstall Ottla")
    columns = open_batches(build(None, [b"v"], 5))
    assert not gc.is_tracked(columns.records()[0])
    assert not gc.is_tracked(columns.records(TopicPartition("t", 3))[0])


def test_the_uncompiled_classes_do_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """What `ottla.records.batches.record` has where nothing is compiled, under the tests above."""
    plain = ModuleType("ottla.records.record_uncompiled")
    monkeypatch.setattr(kernel_record, "COMPILED", False)
    monkeypatch.setitem(sys.modules, plain.__name__, plain)
    exec(Path(record_module.__file__).read_text(), vars(plain))
    assert issubclass(plain.ConsumerRecord, plain.Record)
    assert issubclass(plain.Record, tuple)
    monkeypatch.setattr(columns_module, "Record", plain.Record)
    monkeypatch.setattr(columns_module, "ConsumerRecord", plain.ConsumerRecord)
    monkeypatch.setattr(kernel_record, "make_records", uncompiled("kernel_record").make_records)
    for name, value in (("Record", plain.Record), ("ConsumerRecord", plain.ConsumerRecord), ("RECORD", plain.Record(*FIELDS))):
        monkeypatch.setitem(globals(), name, value)
    test_it_has_its_fields_in_order()
    test_it_is_compared_by_them()
    test_it_cannot_be_changed()
    test_it_is_copied_pickled_and_matched()
    test_it_says_what_is_in_it()
    test_those_of_a_partition_say_where_they_come_from()


def test_annotations_may_name_the_types_of_keys_and_values() -> None:
    assert repr(ConsumerRecord[str, int]).endswith("ConsumerRecord[str, int]")
    assert ConsumerRecord[str, int](1, 2, 0, "k", 5, (), ("t", 0)).key == "k"
