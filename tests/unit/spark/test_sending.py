"""Rows on their way out: gathered into worthwhile batches, told apart by topic, given a partition."""

from __future__ import annotations

import importlib
import itertools
from array import array
from collections import Counter

import pytest

from ottla.spark.errors import OptionError
from ottla.spark.options import write_options

pa = pytest.importorskip("pyarrow", reason="pyarrow is absent: pip install 'ottla[spark]'")
pytest.importorskip("pyspark", reason="PySpark is absent: pip install 'ottla[spark]'")
sending = importlib.import_module("ottla.spark.row_sender")
arrow = importlib.import_module("ottla.records.batches.arrow")


def batch(values: list[str], **columns: object) -> object:
    return pa.RecordBatch.from_pydict({"value": values, **columns})


def test_small_batches_are_joined_and_large_ones_pass_as_they_are() -> None:
    small, large = batch(["a"]), batch(["x" * 100_000] * 50)
    joined = list(sending.gather([small, batch([]), small]))
    assert [each.column("value").to_pylist() for each in joined] == [["a", "a"]]
    passed = list(sending.gather([large, small, large]))
    assert passed[0] is large
    assert [each.num_rows for each in passed] == [50, 51]


def test_the_option_outweighs_the_column_and_rows_of_each_topic_keep_their_order() -> None:
    rows = batch(["1", "2", "3"], topic=["b", "a", "b"])
    assert [(topic, own.num_rows) for topic, own in sending.by_topic(rows, "c")] == [("c", 3)]
    parted = {topic: own.column("value").to_pylist() for topic, own in sending.by_topic(rows, None)}
    assert parted == {"b": ["1", "3"], "a": ["2"]}
    with pytest.raises(OptionError, match="column topic is null"):
        list(sending.by_topic(batch(["1"], topic=pa.array([None], pa.string())), None))


def choose(by_key: list[int], named: list[int | None] | None = None, count: int = 4) -> list[int]:
    column = None if named is None else pa.array(named, pa.int32())
    return list(sending.choose_partitions(array("i", by_key), column, count, "flights"))


def test_a_named_partition_outweighs_the_keys() -> None:
    assert choose([0, 1, 2], [None, 3, 0]) == [0, 3, 0]


def test_rows_without_a_key_go_out_in_runs_over_all_partitions() -> None:
    chosen = choose([-1] * 8000)
    assert Counter(chosen) == {0: 2000, 1: 2000, 2: 2000, 3: 2000}
    assert sum(here != there for here, there in itertools.pairwise(chosen)) == 3
    assert len(set(choose([-1] * 10))) == 1


@pytest.mark.parametrize("named", [4, -1])
def test_a_partition_that_is_not_there_is_told(named: int) -> None:
    with pytest.raises(OptionError, match=f"Topic flights has no partition {named}: name one of 0 to 3"):
        choose([0, 0], [1, named])


@pytest.mark.parametrize(("given", "right"), [("true", [1_357_034_400_123, 77, -1]), ("false", 77)])
def test_records_have_the_times_of_the_column_where_that_is_asked_for(given: str, right: object) -> None:
    options = write_options({"kafka.bootstrap.servers": "localhost:1", "includeTimestamp": given})
    times = pa.array([1_357_034_400_123_456, None, -1000], pa.timestamp("us", tz="UTC"))
    found = sending.timestamps_of(batch(["1", "2", "3"], timestamp=times), options, 77)
    assert (found if isinstance(found, int) else found.to_pylist()) == right


def test_a_record_over_the_largest_request_is_told_with_its_size() -> None:
    headers = pa.array([None, [("h", b"x" * 100)]], pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])))
    rows = arrow.arrow_rows(pa.array(["a", "b" * 900]), pa.array([None, "k" * 50]), 0, headers)
    sending.check_sizes(rows, 2000, "flights")
    with pytest.raises(OptionError, match=r"A record for topic flights takes 11\d\d bytes, more than kafka.max.request.size=1100"):
        sending.check_sizes(rows, 1100, "flights")
    sending.check_sizes(arrow.arrow_rows(pa.array([], pa.string()), None, 0, None), 100, "flights")


@pytest.mark.parametrize("headers", [[[{"key": None, "value": b"x"}]], [[None]], [None, [{"key": "k", "value": None}, None]]])
def test_a_header_that_is_null_is_refused_in_a_sentence(headers: list[object]) -> None:
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    with pytest.raises(OptionError, match="is null, and Kafka has no such header"):
        sending.check_headers(pa.array(headers, kind))
    sending.check_headers(pa.array([None, [], [{"key": "", "value": None}]], kind))
