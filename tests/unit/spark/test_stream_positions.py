"""Where a stream stands: the form in a checkpoint, what becomes of topics meanwhile, and how far behind it is."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ottla.client.types import TopicPartition
from ottla.spark.streams.progress import SourceProgress, offsets_behind_latest
from ottla.spark.streams.stream_position import Position, drop_lost, from_json, id_text, to_json, unknown_topics

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
ALL = {A0, A1, B0}


def test_offsets_are_stored_as_the_jvm_connector_stores_them_with_the_ids_of_topics() -> None:
    assert to_json(Position({A1: 7, A0: 3, B0: 9})) == {"a": {"0": 3, "1": 7}, "b": {"0": 9}}
    known = Position({A1: 7, A0: 3, B0: 9}, {"a": "AAA"}, {A0: 1})
    assert to_json(known) == {
        "a": {"0": 3, "1": 7},
        "b": {"0": 9},
        "topic ids": {"a": "AAA"},
        "starting offsets": {"a": {"0": 1}},
    }
    assert from_json(json.loads(json.dumps(to_json(known)))) == known
    assert from_json({"a": {"0": 3}}) == Position({A0: 3})


def test_ids_are_written_as_kafkas_tools_write_them() -> None:
    assert id_text(bytes(range(16))) == "AAECAwQFBgcICQoLDA0ODw"
    assert id_text(bytes(16)) == "", "what brokers before Kafka 2.8 tell"


def test_nothing_is_gone_where_ids_are_the_same_or_unknown() -> None:
    begin = Position({A0: 3, A1: 7}, {"a": "old"})
    for ids in ({"a": "old"}, {}):
        assert drop_lost(begin, Position({A0: 5, A1: 7, B0: 0}, ids), ALL) == ([], begin)
    unknown = Position({A0: 3})
    assert drop_lost(unknown, Position({A0: 5}, {"a": "new"}), ALL) == ([], unknown)


def test_topics_that_went_or_came_again_are_told_and_left_out() -> None:
    begin = Position({A0: 3, A1: 7, B0: 9}, {"a": "old", "b": "same"})
    clauses, left = drop_lost(begin, Position({A0: 50, B0: 9}, {"a": "new", "b": "same"}), ALL)
    assert clauses == ["topic a was deleted and recreated after a-0 was read to offset 3"]
    assert left == Position({B0: 9}, {"b": "same"})
    clauses, left = drop_lost(begin, Position({B0: 9}, {"b": "same"}), ALL)
    assert clauses == ["topic a was deleted after a-0 was read to offset 3"]
    assert left == Position({B0: 9}, {"b": "same"})


def test_what_the_query_does_not_ask_for_any_more_is_told_as_that() -> None:
    clauses, left = drop_lost(Position({A0: 3, A1: 7}), Position({A0: 3}), {A0})
    assert clauses == ["a-1 is left out of the query's options after a-1 was read to offset 7"]
    assert left == Position({A0: 3})
    assert drop_lost(Position({A0: 3, A1: 7}), Position({A0: 3}), ALL)[0] == ["a-1 was deleted after a-1 was read to offset 7"]


def test_a_named_topic_of_which_nothing_was_ever_seen_is_unknown() -> None:
    assert unknown_topics(["a", "b", "c"], Position({A0: 3}), Position({B0: 0})) == ["c"]


def progress(end: Any, latest: Any) -> dict[str, Any]:
    return {"sources": [{"endOffset": end, "latestOffset": latest}]}


def test_how_far_a_query_is_behind_is_told_for_each_source() -> None:
    end, latest = {"a": {"0": 3, "1": 7}, "topic ids": {"a": "x"}}, {"a": {"0": 13, "1": 7}, "b": {"0": 2}}
    expected = [SourceProgress(("a", "b"), 0, 10, 4.0, 12)]
    assert offsets_behind_latest(progress(end, latest)) == expected
    assert offsets_behind_latest(progress(json.dumps(end), json.dumps(latest))) == expected
    assert offsets_behind_latest(progress(7, {"logOffset": 3}))[0].topics == ()
    made_anew = latest | {"topic ids": {"a": "y"}}
    assert offsets_behind_latest(progress(end, made_anew))[0].max_offsets_behind_latest == 13
    assert offsets_behind_latest(progress(None, None)) == [SourceProgress((), 0, 0, 0.0, 0)]


def test_what_is_no_progress_is_told() -> None:
    with pytest.raises(ValueError, match=r"give query\.lastProgress"):
        offsets_behind_latest(None)
