"""What can be encoded, what cannot, and how that is said; declarations that are refused; plain codecs that can be seen."""

from __future__ import annotations

import copy
import dataclasses
import subprocess
import sys
import traceback
from typing import Any

import pytest

from ottla.wire import Unencodable, decode, encode, encode_parts
from ottla.wire.api.api_versions import ApiVersionsResponse
from ottla.wire.api.fetch import FetchRequest, FetchResponse
from ottla.wire.api.join_group import JoinGroupRequest
from ottla.wire.api.metadata import MetadataRequest, MetadataResponse
from ottla.wire.api.offset_commit import OffsetCommitRequest
from ottla.wire.api.produce import ProduceRequest, ProduceResponse
from ottla.wire.codec import plain
from ottla.wire.codec.plans import plan_of
from ottla.wire.data import decode_from_member, decode_key, decode_value, encode_key, encode_value, peek
from ottla.wire.data.consumer_groups import ConsumerGroupMemberMetadataValue
from ottla.wire.data.consumer_protocol import ConsumerProtocolSubscription
from ottla.wire.data.offset_commits import OffsetCommitKey, OffsetCommitValue
from ottla.wire.faults import Malformed
from ottla.wire.inspection.walk import leaves
from ottla.wire.schema import Message, Struct, i32, since

pytestmark = pytest.mark.usefixtures("codecs")

P = ProduceRequest


def wrong(value: Any) -> Any:
    """A value of a type that a type checker would not let through."""
    return value


def one_partition(**partition: Any) -> ProduceRequest:
    return P(topic_data=[P.TopicProduceData(partition_data=[P.PartitionProduceData(**partition)])])


@pytest.mark.parametrize(
    ("msg", "version", "sentence"),
    [
        (P(transactional_id="x"), 2, "ProduceRequest v2, transactional_id: is set, but travels only in version 3 and later"),
        (
            OffsetCommitValue(expire_timestamp=3, offset=1 << 70),
            1,
            "OffsetCommitValue v1, offset: must be from -9223372036854775808 to 9223372036854775807, not 1180591620717411303424",
        ),
        (MetadataRequest(topics=None), 0, "MetadataRequest v0, topics: is None, which it must not be in this version"),
        (P(acks=70_000), 9, "ProduceRequest v9, acks: must be from -32768 to 32767, not 70000"),
        (P(topic_data=[P.TopicProduceData(topic_id=b"12")]), 13, "ProduceRequest v13, topic_data[0].topic_id: must be 16 bytes"),
        (P(topic_data=wrong([3])), 9, "ProduceRequest v9, topic_data[0]: must be a ProduceRequest.TopicProduceData, not int"),
        (P(topic_data=wrong("x")), 9, "ProduceRequest v9, topic_data: must be a list, not str"),
        (P(transactional_id=wrong(b"x")), 9, "ProduceRequest v9, transactional_id: must be a str, not bytes"),
        (P(transactional_id="\ud800"), 9, "ProduceRequest v9, transactional_id: cannot be written as UTF-8"),
        (
            P(transactional_id="x" * 32_768),
            9,
            "ProduceRequest v9, transactional_id: has 32768 bytes, more than a string may have: 32767",
        ),
        (
            FetchRequest(cluster_id="c", unknown_tags=((0, b"a"),)),
            12,
            "FetchRequest v12, unknown_tags: holds a tag that the schema knows",
        ),
        (
            one_partition(records=range(4)),
            9,
            "ProduceRequest v9, topic_data[0].partition_data[0].records: "
            "must be bytes, not range (encode_parts takes other records)",
        ),
        (
            FetchRequest(topics=[FetchRequest.FetchTopic(partitions=[FetchRequest.FetchPartition(last_fetched_epoch=2)])]),
            11,
            "FetchRequest v11, topics[0].partitions[0].last_fetched_epoch: is set, but travels only in version 12 and later",
        ),
        (
            FetchRequest(rack_id="r", replica_id=3),
            15,
            "FetchRequest v15, replica_id: is set, but travels only in versions 0 to 14",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_travel_is_an_error_that_names_the_field(msg: Message, version: int, sentence: str) -> None:
    with pytest.raises(Unencodable) as caught:
        encode(msg, version)
    assert str(caught.value) == sentence
    assert isinstance(caught.value, ValueError)


def test_bytes_of_a_wrong_type_are_found_in_parts_too() -> None:
    key = ConsumerGroupMemberMetadataValue.ClassicProtocol(name="p", metadata=wrong("text"))
    of = ConsumerGroupMemberMetadataValue
    msg = of(classic_member_metadata=of.ClassicMemberMetadata(supported_protocols=[key]))
    for write in (encode, encode_parts):
        with pytest.raises(Unencodable, match=r"supported_protocols\[0\].metadata: must be bytes, not str"):
            write(msg, 0)


class Five:
    def __index__(self) -> int:
        return 5


class Words(str):
    __slots__ = ()


def member(metadata: Any) -> JoinGroupRequest:
    return JoinGroupRequest(protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=metadata)])


def test_values_as_good_as_those_of_the_declared_types_travel() -> None:
    assert encode(P(acks=wrong(Five())), 9) == encode(P(acks=5), 9)
    assert encode(P(transactional_id=Words("é")), 9) == encode(P(transactional_id="é"), 9)
    for data in (bytearray(b"ab"), memoryview(b"ab")):
        assert encode(member(data), 9) == encode(member(b"ab"), 9)
    topics = [MetadataRequest.MetadataRequestTopic(name="t", topic_id=wrong(bytearray(16)))]
    for some in (tuple(topics), dict(enumerate(topics)).values()):
        assert encode(MetadataRequest(topics=wrong(some)), 12) == encode(MetadataRequest(topics=topics), 12)


@pytest.mark.parametrize(
    "msg",
    [P(acks=wrong(1.5)), P(timeout_ms=wrong(None)), member(memoryview(b"abcd")[::2]), P(unknown_tags=wrong(((1, "text"),)))],
    ids=["a fraction", "nothing", "bytes with gaps", "text in a tag"],
)
def test_values_of_other_types_do_not_travel(msg: Message) -> None:
    with pytest.raises(Unencodable):
        encode(msg, 9)


def test_a_field_that_was_deleted_does_not_travel() -> None:
    msg = P()
    del msg.timeout_ms
    with pytest.raises((Unencodable, AttributeError), match="timeout_ms"):
        encode(msg, 9)


def test_a_message_may_be_long() -> None:
    of = MetadataResponse
    nodes = list(range(-3000, 3000))
    partitions = [of.MetadataResponsePartition(isr_nodes=nodes, replica_nodes=nodes[:count]) for count in (0, 126, 127, 999)]
    msg = of(topics=[of.MetadataResponseTopic(name="x" * 2000, partitions=partitions)])
    assert decode(of, 9, encode(msg, 9)) == msg
    assert len(encode(msg, 9)) > 4 * 24_000


def test_a_field_of_one_version_says_so() -> None:
    partition = OffsetCommitRequest.OffsetCommitRequestPartition(commit_timestamp=5)
    msg = OffsetCommitRequest(topics=[OffsetCommitRequest.OffsetCommitRequestTopic(partitions=[partition])])
    with pytest.raises(Unencodable, match=r"commit_timestamp: is set, but travels only in version 1$"):
        encode(msg, 2)


def test_an_ignorable_field_is_left_out_in_silence() -> None:
    answer = ProduceResponse(throttle_time_ms=9)
    assert decode(ProduceResponse, 0, encode(answer, 0)).throttle_time_ms == 0


def test_a_version_that_never_was_cannot_be_written() -> None:
    with pytest.raises(ValueError, match="ProduceRequest has no version 14: use one of 0 to 13"):
        encode(P(), 14)


def test_unknown_tags_survive_and_stand_in_order() -> None:
    tagged = ApiVersionsResponse(finalized_features_epoch=5, unknown_tags=((9, b"later"), (70, b"")))
    data = encode(tagged, 3)
    back = decode(ApiVersionsResponse, 3, data)
    assert back.unknown_tags == ((9, b"later"), (70, b""))
    assert encode(back, 3) == data
    assert decode(ApiVersionsResponse, 2, encode(back.__class__(), 2)).unknown_tags == ()


def test_of_a_known_tag_sent_twice_the_latter_counts() -> None:
    data = encode(FetchRequest(cluster_id="first", replica_state=FetchRequest.ReplicaState(replica_id=4)), 15)
    again = encode(FetchRequest(cluster_id="second"), 15)
    tags, more = (one[len(encode(FetchRequest(), 15)) :] for one in (data, again))
    twice = data[: -len(tags) - 1] + bytes([data[-len(tags) - 1] + 1]) + tags + more
    assert decode(FetchRequest, 15, twice) == FetchRequest(
        cluster_id="second", replica_state=FetchRequest.ReplicaState(replica_id=4)
    )


def test_an_unknown_tag_sent_twice_is_passed_on() -> None:
    """Found by mutation: the message was read, and then could not be written."""
    data = encode(MetadataRequest(), 12)[:-1] + b"\x02\x63\x01b\x63\x01a"
    assert encode(decode(MetadataRequest, 12, data), 12) == data


def test_a_struct_in_a_tag_that_was_not_sent_is_none() -> None:
    of = FetchResponse
    msg = of(responses=[of.FetchableTopicResponse(partitions=[of.PartitionData(current_leader=of.LeaderIdAndEpoch())])])
    quiet = of(responses=[of.FetchableTopicResponse(partitions=[of.PartitionData()])])
    assert encode(msg, 12) == encode(quiet, 12)
    assert decode(of, 12, encode(msg, 12)).responses[0].partitions[0].current_leader is None


def test_null_in_a_tag_is_not_the_same_as_a_struct_of_defaults() -> None:
    of = ConsumerGroupMemberMetadataValue
    assert of().classic_member_metadata == of.ClassicMemberMetadata()
    nothing = of(classic_member_metadata=None)
    assert encode(nothing, 0).endswith(b"\x01\x00\x01\x00")
    assert decode(of, 0, encode(nothing, 0)).classic_member_metadata is None


def test_records_of_a_decoded_message_are_views_of_the_input() -> None:
    frame = bytearray(encode(one_partition(index=1, records=b"abcdef" * 2000), 9))
    for buf in (frame, memoryview(frame)):
        view: memoryview = decode(P, 9, buf).topic_data[0].partition_data[0].records or memoryview(b"")
        view[0] = ord("X")
        assert frame[frame.index(b"bcdef") - 1] == ord("X")
        view[0] = ord("a")
        view.release()


def test_views_of_any_shape_are_read() -> None:
    import array

    data = encode(one_partition(index=1, records=b"abcd"), 9)
    spread = bytearray(2 * len(data))
    spread[::2] = data
    assert len(data) % 2 == 0
    plain = memoryview(data)
    for view in (
        memoryview(spread)[::2],
        memoryview(array.array("H", data)),
        plain.cast("b"),
        wrong(plain.cast("c")),
        plain.cast("B", (2, len(data) // 2)),
    ):
        partition = decode(P, 9, view).topic_data[0].partition_data[0]
        assert partition.index == 1
        assert partition.records == b"abcd"
    with pytest.raises(Malformed, match="runs past the end"):
        decode(P, 9, memoryview(data)[:-5])


def test_records_that_are_no_buffer_travel_in_parts() -> None:
    piece = range(300)
    parts = encode_parts(one_partition(records=piece), 9)
    assert parts[1] is piece
    assert parts[0].endswith(b"\xad\x02")


def test_decoding_a_large_fetch_response_copies_no_records() -> None:
    import tracemalloc

    of = FetchResponse
    batch = bytes(1 << 20)
    data = encode(of(responses=[of.FetchableTopicResponse(partitions=[of.PartitionData(records=batch) for _ in range(32)])]), 12)
    tracemalloc.start()
    msg = decode(of, 12, memoryview(data))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(msg.responses[0].partitions) == 32
    assert peak < 1 << 20


def test_stored_keys_and_values_carry_their_type_and_version() -> None:
    key, value = OffsetCommitKey(group="g", topic="t", partition=3), OffsetCommitValue(offset=9, metadata="m")
    assert encode_key(key) == b"\0\x01\0\x01g\0\x01t\0\0\0\x03"
    assert peek(encode_key(key)) == 1
    assert decode_key(OffsetCommitKey, encode_key(key)) == key
    assert decode_value(OffsetCommitValue, memoryview(encode_value(value, 3))) == (3, value)
    with pytest.raises(Malformed, match="unknown version"):
        decode_value(OffsetCommitValue, b"\0\x63")
    with pytest.raises(Malformed, match="two bytes"):
        peek(b"\0")


def test_what_a_newer_member_wrote_is_read_as_far_as_we_know() -> None:
    mine = ConsumerProtocolSubscription(topics=["t"], rack_id="r")
    assert decode_from_member(ConsumerProtocolSubscription, encode_value(mine, 3)) == (3, mine)
    newer = b"\0\x07" + encode(mine, 3) + b"more than we know"
    assert decode_from_member(ConsumerProtocolSubscription, newer) == (3, mine)
    for bad in (b"", b"\0\0\0", b"\xff\xff"):
        with pytest.raises(Malformed):
            decode_from_member(ConsumerProtocolSubscription, bad)


def test_messages_are_dataclasses_with_readable_and_comparable_values() -> None:
    msg = P(acks=1, topic_data=[P.TopicProduceData(name="t")])
    assert repr(msg) == "ProduceRequest(acks=1, topic_data=[ProduceRequest.TopicProduceData(name='t')])"
    assert repr(P(unknown_tags=((1, b"x"),))) == "ProduceRequest(unknown_tags=((1, b'x'),))"
    assert copy.deepcopy(msg) == msg != dataclasses.replace(msg, acks=2)
    assert msg != "ProduceRequest"
    assert P().topic_data is not P().topic_data
    with pytest.raises(TypeError, match="unhashable"):
        hash(msg)


def test_a_walk_says_where_each_value_lies() -> None:
    found = leaves(MetadataRequest, 1, encode(MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name="ab")]), 1))
    assert [tuple(leaf) for leaf in found] == [("topics[0].name", 4, 8, "ab")]


def test_a_field_cannot_be_named_as_a_type() -> None:
    with pytest.raises(TypeError, match="i32 is named as a type"):

        class Clash(Struct):
            i32: i32 = since()


def test_a_declaration_reads_as_one() -> None:
    class Greeting(Message, key=99, valid="0-2", flexible="2"):
        name: str = since()
        times: i32 = since("1+", default=1)

    assert Greeting().times == 1
    assert encode(Greeting(name="you"), 0) == b"\0\x03you"
    assert decode(Greeting, 2, b"\x04you\0\0\0\x02\0") == Greeting(name="you", times=2)


def test_the_lines_of_a_plain_codec_show_in_tracebacks() -> None:
    write = plain.writer(plan_of(MetadataRequest, 3))
    try:
        write(MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=wrong(3))]), [], [])
    except AttributeError:
        shown = traceback.format_exc()
    assert '<write MetadataRequest.MetadataRequestTopic v3>", line' in shown
    assert "v = v.encode()" in shown


def test_importing_wire_loads_no_message_and_no_third_party() -> None:
    """What a compiled kernel makes for itself (`cython_runtime`) comes from no file."""
    code = (
        "import sys; before = set(sys.modules); import ottla.wire, ottla.wire.apis, ottla.wire.framing;"
        "print(*sorted(n for n in set(sys.modules) - before if n.startswith('ottla.wire.api.')"
        " or n.split('.')[0] not in {'ottla', *sys.stdlib_module_names} and hasattr(sys.modules[n], '__file__')))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout.strip() == ""


def test_a_decoded_message_can_be_replaced_before_any_was_made_by_its_class() -> None:
    class Made(Message, key=1, valid="0-1"):
        number: i32 = since()
        text: str = since("1+")

    made = object.__new__(Made)
    made.number, made.text, made.unknown_tags = 7, "a", ()
    assert dataclasses.is_dataclass(made)
    changed = dataclasses.replace(made, text="b")
    assert (changed.number, changed.text, changed.unknown_tags) == (7, "b", ())
    assert [field.name for field in dataclasses.fields(Made)] == ["number", "text", "unknown_tags"]
    assert not dataclasses.is_dataclass(Message)
    with pytest.raises(TypeError, match="unexpected keyword argument 'other'"):
        Made(other=1)  # type: ignore[call-arg]  # the mistake
