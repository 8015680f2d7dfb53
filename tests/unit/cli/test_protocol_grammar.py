"""What is said of the protocol: grammars and rows of fields, for every message in every version."""

from __future__ import annotations

import pytest

from ottla.cli.protocol.grammar import about, as_json, default, grammar, rows, sentence
from ottla.inspection.api_names import spec
from ottla.wire.api.fetch import FetchRequest
from ottla.wire.api.heartbeat import HeartbeatRequest
from ottla.wire.api.metadata import MetadataRequest
from ottla.wire.api.produce import ProduceRequest
from ottla.wire.apis import API
from ottla.wire.data.consumer_groups import ConsumerGroupCurrentMemberAssignmentValue
from ottla.wire.schema import Message, versions
from tests.unit.wire.values import EVERY


@pytest.mark.parametrize("text", ["0+", "3+", "0-12", "4", "none"])
def test_a_range_of_versions_is_said_as_it_is_declared(text: str) -> None:
    assert spec(versions(text)) == text


def test_the_grammar_of_a_plain_version() -> None:
    assert grammar(MetadataRequest, 4) == [
        "Metadata Request (Version: 4) => [topics] allow_auto_topic_creation",
        "  topics => name",
        "    name => STRING",
        "  allow_auto_topic_creation => BOOLEAN",
    ]


def test_the_grammar_of_a_flexible_version_has_compact_types_and_tags_last() -> None:
    assert grammar(HeartbeatRequest, 4)[0] == (
        "Heartbeat Request (Version: 4) => group_id generation_id member_id group_instance_id _tagged_fields"
    )
    assert grammar(HeartbeatRequest, 4)[-1] == "  group_instance_id => COMPACT_NULLABLE_STRING"
    head = grammar(FetchRequest, 15)[0]
    assert head.endswith("rack_id cluster_id<tag: 0> replica_state<tag: 1> _tagged_fields")


def test_records_and_nullable_texts_are_named_as_in_kafkas_guide() -> None:
    assert "  transactional_id => NULLABLE_STRING" in grammar(ProduceRequest, 3)
    assert "      records => RECORDS" in grammar(ProduceRequest, 3)
    assert "      records => COMPACT_RECORDS" in grammar(ProduceRequest, 9)


@pytest.mark.parametrize("cls", EVERY, ids=lambda cls: cls.__name__)
def test_every_version_of_every_message_has_a_grammar_with_a_line_for_each_field(cls: type[Message]) -> None:
    for version in cls.WIRE.valid:
        lines = grammar(cls, version)
        assert len(lines) == 1 + len(list(rows(cls, version)))
        assert ("_tagged_fields" in lines[0]) == (version in cls.WIRE.flexible)


def test_a_row_says_all_of_a_field() -> None:
    found = {row.path: row for row in rows(FetchRequest)}
    assert found["cluster_id"]._asdict() == {
        "path": "cluster_id",
        "depth": 0,
        "name": "cluster_id",
        "type": "string",
        "versions": "12+",
        "nullable": "12+",
        "tag": "0",
        "default": "null",
        "ignorable": True,
    }
    inner = found["topics[].partitions[].high_watermark"]
    assert (inner.depth, inner.type, inner.tag, inner.default) == (2, "int64", "1", str((1 << 63) - 1))
    assert found["replica_state"].default == "not sent"
    assert found["topics"].type == "[]FetchTopic"
    assert found["forgotten_topics_data[].partitions"].type == "[]int32"


def test_rows_of_a_version_leave_out_what_does_not_travel_in_it() -> None:
    assert "topics[].topic_id" not in {row.path for row in rows(FetchRequest, 12)}
    assert "topics[].topic" not in {row.path for row in rows(FetchRequest, 13)}


def test_every_field_has_a_default_in_words() -> None:
    assert all(default(f) for cls in EVERY for f in cls.WIRE.fields)


def test_every_api_and_message_says_what_it_is_for() -> None:
    assert [api.name for api in API.values() if not about(api)[0].endswith(".")] == []
    assert [cls.__name__ for cls in EVERY if not sentence(cls).endswith(".")] == []
    assert about(API[12]) == (
        "A member of a classic group keeps its session alive.",
        "Version 3 adds static members (KIP-345).",
    )


def test_values_for_programs_hold_a_grammar_for_each_version() -> None:
    said = as_json(ConsumerGroupCurrentMemberAssignmentValue, [0])
    assert said["versions"] == "0"
    assert list(said["grammar"]) == ["0"]
    assert said["fields"][0]["path"]
