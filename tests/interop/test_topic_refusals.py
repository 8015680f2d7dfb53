"""What is refused about topics, in the words with which Apache Kafka 4.3 begins: its tools and tests look for them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from ottla.wire.api.create_partitions import CreatePartitionsRequest
from ottla.wire.api.create_topics import CreateTopicsRequest
from ottla.wire.api.delete_topics import DeleteTopicsRequest
from tests.support.bad_groups import Questioner
from tests.support.peers import start_peer

CREATE, DELETE, GROW = 19, 20, 37
BY_HAND = "A manual partition assignment"
NO_ID, SOME_ID = bytes(16), b"\x01" * 16

Create = CreateTopicsRequest.CreatableTopic
Delete = DeleteTopicsRequest.DeleteTopicState
Grow = CreatePartitionsRequest.CreatePartitionsTopic


def create(name: str, partitions: int = 1, replicas: int = 1, *assigned: tuple[int, list[int]], **configs: str | None) -> Create:
    return Create(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        assignments=[CreateTopicsRequest.CreatableReplicaAssignment(partition_index=at, broker_ids=ids) for at, ids in assigned],
        configs=[CreateTopicsRequest.CreatableTopicConfig(name=key.replace("_", "."), value=text) for key, text in configs.items()],
    )


def grow(name: str, count: int, *assigned: list[int]) -> Grow:
    assignments = [CreatePartitionsRequest.CreatePartitionsAssignment(broker_ids=ids) for ids in assigned]
    return Grow(name=name, count=count, assignments=assignments or None)


@pytest.fixture(scope="module")
def questioner(peer_name: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Questioner]:
    """Asks a broker that has the topics known and known.too."""
    with start_peer(peer_name, tmp_path_factory.mktemp("refusals")) as peer, closing(Questioner(peer.address)) as questioner:
        assert refusals(questioner, CREATE, [create("known"), create("known.too")]) == [(0, ""), (0, "")]
        yield questioner


def refusals(questioner: Questioner, key: int, topics: list[Any]) -> list[tuple[int, str]]:
    """(error code, text) of each answer."""
    if key == CREATE:
        answered = questioner.ask(key, 7, CreateTopicsRequest(topics=topics, timeout_ms=10_000)).topics
    elif key == DELETE:
        answered = questioner.ask(key, 6, DeleteTopicsRequest(topics=topics, timeout_ms=10_000)).responses
    else:
        answered = questioner.ask(key, 3, CreatePartitionsRequest(topics=topics, timeout_ms=10_000)).results
    return [(one.error_code, one.error_message or "") for one in answered]


@pytest.mark.parametrize(
    ("topics", "code", "words"),
    [
        ([create("known")], 36, "Topic 'known' already exists"),
        ([create("")], 17, "Topic name is invalid: the empty string is not allowed"),
        ([create("..")], 17, "Topic name is invalid: '..' is not allowed"),
        ([create("a b")], 17, "Topic name is invalid: 'a b' contains one or more characters other than ASCII alphanumerics"),
        ([create("x" * 250)], 17, f"Topic name is invalid: the length of '{'x' * 250}' is longer than the max allowed length 249"),
        ([create("known_too")], 17, "Topic 'known_too' collides with existing topic: known.too"),
        ([create("__cluster_metadata")], 42, "Creation of internal topic __cluster_metadata is prohibited"),
        ([create("new", 0)], 37, "Number of partitions was set to an invalid non-positive value"),
        ([create("new", 1, 0)], 38, "Replication factor must be larger than 0, or -1 to use the default value."),
        ([create("new", 1, 2)], 38, "Unable to replicate the partition 2 time(s): The target replication factor of 2"),
        ([create("new", 20_000)], 44, "Excessively large number of partitions per request"),
        ([create("new"), create("new")], 42, "Duplicate topic name"),
        ([create("new", -1, 1, (0, [1]))], 42, f"{BY_HAND} was specified, but replication factor was not set to -1"),
        ([create("new", 1, -1, (0, [1]))], 42, f"{BY_HAND} was specified, but numPartitions was not set to -1"),
        ([create("new", -1, -1, (1, [1]))], 39, "partitions should be a consecutive 0-based integer sequence"),
        ([create("new", -1, -1, (0, [1]), (0, [1]))], 39, "Found multiple manual partition assignments for partition 0"),
        ([create("new", -1, -1, (0, [7]))], 39, "The manual partition assignment includes broker 7, but no such broker"),
        ([create("new", -1, -1, (0, [1, 1]))], 39, "The manual partition assignment includes the broker 1 more than once"),
        ([create("new", -1, -1, (0, []))], 39, "The manual partition assignment includes an empty replica list"),
        ([create("new", nope="1")], 40, "Unknown topic config name: nope"),
        ([create("new", retention_ms="x")], 40, "Invalid value x for configuration retention.ms: Not a number of type LONG"),
        ([create("new", retention_ms=None)], 40, "Null value not supported for topic configs: retention.ms"),
        ([Delete(name="nobody", topic_id=NO_ID)], 3, "This server does not host this topic-partition"),
        ([Delete(name=None, topic_id=SOME_ID)], 100, "This server does not host this topic ID"),
        ([Delete(name=None, topic_id=NO_ID)], 42, "Neither topic name nor id were specified"),
        ([Delete(name="nobody", topic_id=SOME_ID)], 42, "You may not specify both topic name and topic id"),
        ([Delete(name="known", topic_id=NO_ID)] * 2, 42, "Duplicate topic name"),
        ([Delete(name=None, topic_id=SOME_ID)] * 2, 42, "Duplicate topic id"),
        ([grow("nobody", 2)], 3, ""),
        ([grow("known", 1)], 37, "Topic already has 1 partition(s)"),
        ([grow("known", 0)], 37, "The topic known currently has 1 partition(s); 0 would not be an increase"),
        ([grow("known", 2, [1], [1])], 39, "Attempted to add 1 additional partition(s), but only 2 assignment(s) were specified"),
        ([grow("known", 2, [7])], 39, "The manual partition assignment includes broker 7, but no such broker"),
        ([grow("known", 2, [1, 1])], 39, "The manual partition assignment includes the broker 1 more than once"),
        ([grow("known", 2)] * 2, 42, "Duplicate topic name"),
    ],
    ids=str,
)  # fmt: skip
def test_a_refusal_begins_with_kafkas_words(questioner: Questioner, topics: list[Any], code: int, words: str) -> None:
    keys: dict[type, int] = {Create: CREATE, Delete: DELETE, Grow: GROW}
    key = keys[type(topics[0])]
    for error_code, text in refusals(questioner, key, topics):
        assert error_code == code, text
        assert text.startswith(words), text
