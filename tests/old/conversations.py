"""What is asked of every broker, old or in its place: conversations by subject, each about topics and groups of its own.

Each version of an API is asked that the broker answers, up to the first flexible one. Keys are those of Kafka's protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ottla.wire.apis import API
from tests.old.message_sets import batch, message, plain, unnumbered, wrapped
from tests.old.talk import OTHER_SHAPES, Talk

PRODUCE, FETCH, LIST_OFFSETS, METADATA = 0, 1, 2, 3
LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA, CONTROLLED_SHUTDOWN = 4, 5, 6, 7
OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR, JOIN_GROUP, HEARTBEAT, LEAVE_GROUP, SYNC_GROUP = 8, 9, 10, 11, 12, 13, 14
DESCRIBE_GROUPS, LIST_GROUPS, SASL_HANDSHAKE, API_VERSIONS, CREATE_TOPICS, DELETE_TOPICS = 15, 16, 17, 18, 19, 20
LAST_KEY = 50
BETWEEN_BROKERS = range(4, 8)
TIMES = {"the last": -1, "the first": -2, "those since 0": 0, "those before the year 2200": 7_258_118_400_000}
CORRUPT = bytes((*message(b"v")[:12], 1, 2, 3, 4, *message(b"v")[16:]))


def produced(topic: str, records: bytes | None, *, acks: int = 1, partition: int = 0) -> dict[str, Any]:
    data = [{"name": topic, "partition_data": [{"index": partition, "records": records}]}]
    return {"acks": acks, "timeout_ms": 500, "topic_data": data}


def fetched(topic: str, offset: int, *, partition: int = 0, max_bytes: int = 10_000, all_bytes: int = 1 << 20) -> dict[str, Any]:
    part = {"partition": partition, "fetch_offset": offset, "partition_max_bytes": max_bytes}
    limits = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": all_bytes}
    return {"replica_id": -1, **limits, "topics": [{"topic": topic, "partitions": [part]}]}


def sought(topic: str, timestamp: int, *, partition: int = 0, count: int = 10) -> dict[str, Any]:
    part = {"partition_index": partition, "timestamp": timestamp, "max_num_offsets": count}
    return {"replica_id": -1, "topics": [{"name": topic, "partitions": [part]}]}


def make(talk: Talk, *topics: str) -> None:
    """Have topics made, as old clients do: by asking about them. A broker tells of a leader a moment before that leads."""
    for topic in topics:
        talk.until_served(METADATA, 0, topics=[{"name": topic}])
        talk.until_served(LIST_OFFSETS, 0, **sought(topic, -1))


def served_versions(talk: Talk) -> dict[int, int]:
    """Ask with nothing in it, in every key and version up to the first that is refused; how many of each key were answered."""
    served = {}
    for key in range(LAST_KEY):
        if key in BETWEEN_BROKERS:
            continue
        for version in API[key].versions:
            if version in API[key].flexible:
                break
            talk.ask("nothing", key, version, **({"acks": 1} if key == PRODUCE else {}))
            name = f"{API[key].name} v{version}: nothing"
            if isinstance(talk.heard[name], str) or set(talk.heard[name]) & OTHER_SHAPES:
                break
            served[key] = version + 1
            talk.heard[name] = "answers"
    return served


def strange_frames(talk: Talk) -> None:
    """What is no request at all."""
    talk.raw("an unknown key", b"\x00\x63\x00\x00\x00\x00\x00\x07\x00\x03old")
    talk.raw("a negative key", b"\xff\xff\x00\x00\x00\x00\x00\x07\x00\x03old")
    talk.raw("a negative version of Metadata", b"\x00\x03\xff\xff\x00\x00\x00\x07\x00\x03old\x00\x00\x00\x00")
    talk.raw("a Metadata request that ends within its array", b"\x00\x03\x00\x00\x00\x00\x00\x07\x00\x03old\x00\x00\x00\x02")
    talk.raw("a Metadata request without a client id", b"\x00\x03\x00\x00\x00\x00\x00\x07\xff\xff\x00\x00\x00\x01\x00\x04here")
    talk.raw("a header that ends within its client id", b"\x00\x03\x00\x00\x00\x00\x00\x07\x00\x30old")
    talk.raw("ApiVersions of a version not yet made", b"\x00\x12\x00\x63\x00\x00\x00\x07\x00\x03old\x00\x01\x01\x00")


def metadata(talk: Talk) -> None:
    for version in talk.versions(METADATA):
        talk.ask("a topic that is there", METADATA, version, topics=[{"name": "here"}])
        talk.ask("a topic that is made by asking", METADATA, version, topics=[{"name": f"new-{version}"}])
        talk.ask("a name that none may have", METADATA, version, topics=[{"name": "not/a name"}])
        talk.ask("an empty name", METADATA, version, topics=[{"name": ""}])
        talk.ask("the same topic twice", METADATA, version, topics=[{"name": "here"}, {"name": "here"}])
        if version:
            talk.ask("no topics", METADATA, version, topics=[])


def produce(talk: Talk) -> None:
    for version in talk.versions(PRODUCE):
        topic = f"produced-{version}"
        make(talk, topic)
        for magic in (0, 1):
            talk.ask(f"magic {magic}", PRODUCE, version, **produced(topic, plain(b"a", b"b", magic=magic)))
            absolute = wrapped(plain(b"c", b"d", magic=magic), magic=magic, offset=1)
            talk.ask(f"magic {magic} in gzip, wrapper at 1", PRODUCE, version, **produced(topic, absolute))
            talk.ask(
                f"magic {magic} in gzip, wrapper at 0",
                PRODUCE,
                version,
                **produced(topic, wrapped(plain(b"e", b"f", magic=magic), magic=magic)),
            )
        talk.ask("magic 2", PRODUCE, version, **produced(topic, batch(b"g", b"h")))
        odd_sets(talk, version)
        odd_targets(talk, version, topic)


def odd_sets(talk: Talk, version: int) -> None:
    """Sets that are not well formed, each to a topic of its own: some releases take what others refuse."""
    sets = {
        "no records": b"",
        "a wrong checksum": CORRUPT,
        "an unknown magic": message(b"v", magic=3),
        "an unknown codec": message(b"v", attributes=5),
        "a wrapper in a wrapper": wrapped(wrapped(plain(b"x"))),
        "a partial message at the end": plain(b"y") + plain(b"z")[:20],
        "only part of a message": plain(b"z")[:20],
        "a message of more than a megabyte": message(bytes(1_100_000)),
        "an empty wrapper": wrapped(b""),
        "wrapped messages with offsets that do not count up": wrapped(message(b"i", magic=1, offset=5), magic=1, offset=5),
        "a wrapper at less than its last message": wrapped(plain(b"i", b"j", b"k", magic=1), magic=1, offset=1),
        "a wrapper at -1 around messages at -1": wrapped(unnumbered(b"i", b"j"), magic=1, offset=-1),
        "a wrapper at -1 around messages from 0 on": wrapped(plain(b"i", b"j", magic=1), magic=1, offset=-1),
        "a wrapper at 5 around messages at -1": wrapped(unnumbered(b"i", b"j"), magic=1, offset=5),
        "wrapped messages with offsets that count down": wrapped(
            message(b"i", magic=1, offset=7) + message(b"j", magic=1, offset=3), magic=1, offset=3
        ),
        "messages of magic 1 in a wrapper of magic 0": wrapped(plain(b"i", b"j", magic=1)),
        "messages of magic 0 in a wrapper of magic 1": wrapped(plain(b"i", b"j"), magic=1),
        "messages of both magics in a wrapper of magic 0": wrapped(message(b"i") + message(b"j", magic=1, offset=1)),
    }
    for number, (title, records) in enumerate(sets.items()):
        topic = f"odd-{version}-{number}"
        make(talk, topic)
        talk.ask(title, PRODUCE, version, **produced(topic, records))


def odd_targets(talk: Talk, version: int, topic: str) -> None:
    """Where to, and how it is to be acknowledged."""
    data = plain(b"t")
    talk.ask("a partition that is not there", PRODUCE, version, **produced(topic, data, partition=77))
    talk.ask("a negative partition", PRODUCE, version, **produced(topic, data, partition=-1))
    talk.ask("a name that none may have", PRODUCE, version, **produced("not/a name", data))
    for acks in (-1, 0, 2, -2):
        make(talk, f"{topic}-acks{acks}")
        talk.ask(f"acks of {acks}", PRODUCE, version, **produced(f"{topic}-acks{acks}", data, acks=acks))
    talk.ask("acks of 0 to a partition that is not there", PRODUCE, version, **produced(topic, data, acks=0, partition=77))
    talk.ask("no topics", PRODUCE, version, acks=1, timeout_ms=500, topic_data=[])


def fetch(talk: Talk) -> None:
    make(talk, "empty")
    for magic in (0, 1):
        topic = f"fetched-{magic}"
        make(talk, topic)
        two, inside = plain(b"a" * 20, b"b" * 20, magic=magic), wrapped(plain(b"c", b"d", magic=magic), magic=magic)
        talk.ask(f"two of magic {magic}", PRODUCE, 0, **produced(topic, two))
        talk.ask(f"two in gzip of magic {magic}", PRODUCE, 0, **produced(topic, inside))
        for version in talk.versions(FETCH):
            whereabouts(talk, version, topic)
            for size in (0, 10, 30, 70, 120):
                talk.ask(f"{topic}, at most {size} bytes of a partition", FETCH, version, **fetched(topic, 0, max_bytes=size))
                talk.ask(f"{topic}, at most {size} bytes in all", FETCH, version, **fetched(topic, 0, all_bytes=size))
            talk.ask(f"{topic}, at most 40 bytes within a wrapper", FETCH, version, **fetched(topic, 3, max_bytes=40))
            talk.ask(f"{topic}, a negative size", FETCH, version, **fetched(topic, 0, max_bytes=-1))


def whereabouts(talk: Talk, version: int, topic: str) -> None:
    """From each offset, there or not."""
    for offset in (0, 1, 2, 3, 4, 5, -1):
        talk.ask(f"{topic} from {offset}", FETCH, version, **fetched(topic, offset))
    if topic == "fetched-0":
        talk.ask("an empty partition", FETCH, version, **fetched("empty", 0))
        talk.ask("a partition that is not there", FETCH, version, **fetched(topic, 0, partition=77))
        talk.ask("a topic that is not there", FETCH, version, **fetched("nowhere", 0))
        talk.ask("no topics", FETCH, version, replica_id=-1, max_wait_ms=0, min_bytes=0, max_bytes=1000, topics=[])


def list_offsets(talk: Talk) -> None:
    make(talk, "listed", "bare")
    talk.ask("three", PRODUCE, 0, **produced("listed", plain(b"a", b"b", b"c", magic=1)))
    for version in talk.versions(LIST_OFFSETS):
        for title, time in {
            "the last": -1,
            "the first": -2,
            "those since 0": 0,
            "those before the year 2200": 7_258_118_400_000,
        }.items():
            talk.ask(title, LIST_OFFSETS, version, **sought("listed", time))
            talk.ask(f"{title} of an empty partition", LIST_OFFSETS, version, **sought("bare", time))
        talk.ask("a special time not yet made", LIST_OFFSETS, version, **sought("listed", -99))
        talk.ask("a partition that is not there", LIST_OFFSETS, version, **sought("listed", -1, partition=77))
        talk.ask("a topic that is not there", LIST_OFFSETS, version, **sought("nowhere", -1))
        if version == 0:
            for count in (0, 1, -1):
                talk.ask(f"{count} at most", LIST_OFFSETS, version, **sought("listed", -1, count=count))


def committed(group: str, topic: str, offset: int, metadata: str | None = "", *, partition: int = 0, **more: Any) -> dict[str, Any]:
    part = {"partition_index": partition, "committed_offset": offset, "commit_timestamp": -1, "committed_metadata": metadata}
    who = {"group_id": group, "generation_id_or_member_epoch": -1, "member_id": "", "retention_time_ms": -1}
    return {**who, "topics": [{"name": topic, "partitions": [part]}], **more}


def asked(group: str, topic: str, partition: int = 0) -> dict[str, Any]:
    return {"group_id": group, "topics": [{"name": topic, "partition_indexes": [partition]}]}


def offsets(talk: Talk) -> None:
    make(talk, "counted")
    talk.until_served(FIND_COORDINATOR, 0, key="committers")
    for version in talk.versions(FIND_COORDINATOR):
        talk.ask("of a group", FIND_COORDINATOR, version, key="committers")
        talk.ask("of a group without a name", FIND_COORDINATOR, version, key="")
    for version in talk.versions(OFFSET_COMMIT):
        group = f"committer-{version}"
        talk.ask("an offset", OFFSET_COMMIT, version, **committed(group, "counted", 40 + version, "note"))
        talk.ask("a negative offset", OFFSET_COMMIT, version, **committed(group, "counted", -5))
        talk.ask("a partition that is not there", OFFSET_COMMIT, version, **committed(group, "counted", 1, partition=77))
        talk.ask("a topic that is not there", OFFSET_COMMIT, version, **committed(group, "nowhere", 1))
        talk.ask("much metadata", OFFSET_COMMIT, version, **committed(f"long-{version}", "counted", 1, "m" * 4097))
        talk.ask("no metadata", OFFSET_COMMIT, version, **committed(f"null-{version}", "counted", 1, None))
        talk.ask("a group without a name", OFFSET_COMMIT, version, **committed("", "counted", 1))
        stale = committed(group, "counted", 2, generation_id_or_member_epoch=3, member_id="someone")
        talk.ask("a generation that never was", OFFSET_COMMIT, version, **stale)
        talk.ask("no topics", OFFSET_COMMIT, version, **committed(group, "counted", 1, topics=[]))
    for version in talk.versions(OFFSET_FETCH):
        for by in (0, 1, 2):
            talk.ask(f"committed by v{by}", OFFSET_FETCH, version, **asked(f"committer-{by}", "counted"))
        talk.ask("never committed", OFFSET_FETCH, version, **asked("stranger", "counted"))
        talk.ask("a partition that is not there", OFFSET_FETCH, version, **asked("committer-0", "counted", 77))
        talk.ask("a topic that is not there", OFFSET_FETCH, version, **asked("committer-1", "nowhere"))
        talk.ask("a group without a name", OFFSET_FETCH, version, **asked("", "counted"))
        talk.ask("no topics", OFFSET_FETCH, version, group_id="committer-1", topics=[])
        if version >= 2:
            talk.ask("all topics", OFFSET_FETCH, version, group_id="committer-1", topics=None)


def joining(group: str, **more: Any) -> dict[str, Any]:
    usual = {"session_timeout_ms": 10_000, "rebalance_timeout_ms": 10_000, "member_id": "", "protocol_type": "consumer"}
    return {"group_id": group, **usual, "protocols": [{"name": "range", "metadata": b"mine"}], **more}


def joins(talk: Talk) -> None:
    """Joining in every version, well and badly."""
    talk.until_served(FIND_COORDINATOR, 0, key="anyone")
    for version in talk.versions(JOIN_GROUP):
        talk.ask("a first member", JOIN_GROUP, version, **joining(f"joined-{version}"))
        talk.ask("a short session", JOIN_GROUP, version, **joining(f"short-{version}", session_timeout_ms=1))
        talk.ask("a long session", JOIN_GROUP, version, **joining(f"long-{version}", session_timeout_ms=100_000_000))
        talk.ask("a group without a name", JOIN_GROUP, version, **joining(""))
        talk.ask("a member that never was", JOIN_GROUP, version, **joining(f"unknown-{version}", member_id="someone"))
        talk.ask("no protocols", JOIN_GROUP, version, **joining(f"none-{version}", protocols=[]))
        talk.ask("no type", JOIN_GROUP, version, **joining(f"typeless-{version}", protocol_type=""))
        if version < 4:
            talk.ask("another type", JOIN_GROUP, version, **joining(f"joined-{version}", protocol_type="connect"))


def members(talk: Talk) -> None:
    """The life of one member, and requests of members that are not."""
    answer = talk.ask("a member to be", JOIN_GROUP, 0, **joining("lively"))
    if answer is None:
        return
    me = {"group_id": "lively", "generation_id": answer.generation_id, "member_id": answer.member_id}
    for version in talk.versions(SYNC_GROUP):
        mine = [{"member_id": answer.member_id, "assignment": b"all"}]
        talk.ask("by the leader", SYNC_GROUP, version, **me, assignments=mine)
        talk.ask("of another generation", SYNC_GROUP, version, **{**me, "generation_id": 99}, assignments=[])
        talk.ask("by someone unknown", SYNC_GROUP, version, **{**me, "member_id": "someone"}, assignments=[])
        talk.ask("of a group that is not there", SYNC_GROUP, version, **{**me, "group_id": "nobody"}, assignments=[])
    for version in talk.versions(HEARTBEAT):
        talk.ask("by a member", HEARTBEAT, version, **me)
        talk.ask("of another generation", HEARTBEAT, version, **{**me, "generation_id": 99})
        talk.ask("by someone unknown", HEARTBEAT, version, **{**me, "member_id": "someone"})
        talk.ask("of a group that is not there", HEARTBEAT, version, **{**me, "group_id": "nobody"})
        talk.ask("of a group without a name", HEARTBEAT, version, **{**me, "group_id": ""})
    described(talk)
    for version in talk.versions(LEAVE_GROUP):
        talk.ask("by someone unknown", LEAVE_GROUP, version, group_id="lively", member_id="someone")
        talk.ask("of a group that is not there", LEAVE_GROUP, version, group_id="nobody", member_id="someone")
        if version == 0:
            talk.ask("by a member", LEAVE_GROUP, version, group_id="lively", member_id=answer.member_id)
    talk.ask("a group without members", DESCRIBE_GROUPS, 0, groups=["lively"])


def described(talk: Talk) -> None:
    for version in talk.versions(DESCRIBE_GROUPS):
        talk.ask("a group and what is none", DESCRIBE_GROUPS, version, groups=["lively", "nobody", ""])
    for version in talk.versions(LIST_GROUPS):
        answer = talk.ask("all", LIST_GROUPS, version)
        if answer is not None:
            listed = sorted([group.group_id, group.protocol_type] for group in answer.groups if group.group_id == "lively")
            talk.heard[f"ListGroups v{version}: all"] = [answer.error_code, *listed]


def administration(talk: Talk) -> None:
    for version in talk.versions(SASL_HANDSHAKE):
        talk.ask("where nobody needs to log in", SASL_HANDSHAKE, version, mechanism="PLAIN")
        talk.close()
    for version in talk.versions(CREATE_TOPICS):
        wanted: list[dict[str, Any]] = [
            {"name": f"made-{version}", "num_partitions": 2, "replication_factor": 1},
            {"name": "here", "num_partitions": 1, "replication_factor": 1},
            {"name": "not/a name", "num_partitions": 1, "replication_factor": 1},
            {"name": "no-partitions", "num_partitions": 0, "replication_factor": 1},
            {"name": "many-replicas", "num_partitions": 1, "replication_factor": 3},
            {"name": "odd-setting", "num_partitions": 1, "replication_factor": 1, "configs": [{"name": "no.such", "value": "1"}]},
        ]
        for topic in wanted:
            answer = talk.ask(topic["name"], CREATE_TOPICS, version, topics=[topic], timeout_ms=5000)
            _without_sentences(talk, f"CreateTopics v{version}: {topic['name']}", answer)
    for version in talk.versions(DELETE_TOPICS):
        if version == 0:
            talk.ask("one that is there", DELETE_TOPICS, version, topic_names=["made-0"], timeout_ms=500)
        talk.ask("one that is not", DELETE_TOPICS, version, topic_names=["nowhere"], timeout_ms=500)


def _without_sentences(talk: Talk, name: str, answer: Any) -> None:
    """Error messages are each broker's own."""
    kept = talk.heard[name]
    if answer is not None:
        for topic in kept["topics"]:
            topic.pop("error_message", None)


CONVERSATIONS: Mapping[str, Callable[[Talk], None]] = {
    each.__name__: each
    for each in (strange_frames, metadata, produce, fetch, list_offsets, offsets, joins, members, administration)
}


def answers(address: str) -> dict[str, dict[str, Any]]:
    """All that a broker answers, by conversation and request."""
    first = Talk(address)
    make(first, "here")
    served = served_versions(first)
    heard = {"served_versions": first.heard}
    for name, conversation in CONVERSATIONS.items():
        talk = Talk(address, served)
        conversation(talk)
        talk.close()
        heard[name] = talk.heard
    first.close()
    return heard
