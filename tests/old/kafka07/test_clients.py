"""Clients of 0.6 and 0.7, as they were published, on a listener of 0.7 while a client of today writes and reads the same topics.

Where a client does not understand what another wrote, that is how it was in 2012, and what it makes of it is pinned here.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from typing import Any

import pytest

from tests.old.kafka07 import today
from tests.old.kafka07.clients import BROD, FRANZ, KAFKA_JS, PROZESS, PYKAFKA, SAMSA, Client
from tests.old.kafka07.conftest import Listeners07

pytestmark = [pytest.mark.timeout(600)]
Unique = Callable[[str], str]
COUNT = 20
VALUES = [f"v{i}" for i in range(COUNT)]
HEAD_0, HEAD_1 = 9, 10
"""The bytes before a value, in the log, in a message of magic 0 and in one of magic 1."""


def standing(heads: list[int]) -> list[int]:
    """Where the messages stand, and where the last ends; `heads` says how many bytes are before each value."""
    return [*accumulate((head + len(value) for head, value in zip(heads, VALUES, strict=True)), initial=0)]


def expected(heads: list[int]) -> dict[str, Any]:
    stands = standing(heads)
    return {"first": 0, "read": [[at, value] for at, value in zip(stands, VALUES, strict=False)], "last": stands[-1]}


WRITTEN = {
    "samsa": (SAMSA, [HEAD_0] * (COUNT // 2) + [HEAD_1] * (COUNT // 2)),
    "brod": (BROD, [HEAD_0] * COUNT),
    "pykafka": (PYKAFKA, [HEAD_0] * COUNT),
    "kafka.js": (KAFKA_JS, [HEAD_0] * COUNT),
    "prozess": (PROZESS, [HEAD_1] * COUNT),
    "franz-kafka": (FRANZ, [HEAD_1] * COUNT),
}
"""What each writes: in which magic."""


@pytest.mark.parametrize("name", WRITTEN)
def test_what_an_old_client_writes_is_read_by_itself_and_by_a_client_of_today(
    name: str, listeners: Listeners07, unique: Unique
) -> None:
    client, heads = WRITTEN[name]
    topic = unique("mine")
    client.run(listeners.old, "write", topic, COUNT)
    assert today.read(listeners.today, topic, COUNT) == VALUES
    wanted = expected(heads)
    if client is FRANZ:  # it does not say where a message stood
        assert client.run(listeners.old, "read", topic, COUNT)["read"] == [[None, value] for value in VALUES]
    else:
        found = client.run(listeners.old, "read", topic, COUNT)
        assert found.pop("again", wanted["read"]) == wanted["read"]
        assert found == wanted


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_what_a_client_of_today_writes_in_any_codec_is_read_by_an_old_one_as_plain_messages_of_magic_1(
    codec: str, listeners: Listeners07, unique: Unique
) -> None:
    topic = unique("theirs")
    today.write(listeners.today, topic, VALUES, codec)
    wanted = expected([HEAD_1] * COUNT)
    found = SAMSA.run(listeners.old, "read", topic, COUNT)
    assert found == {**wanted, "again": wanted["read"]}


@pytest.mark.parametrize("client", [PROZESS, FRANZ], ids=["prozess", "franz-kafka"])
def test_clients_of_node_read_what_one_of_today_writes(client: Client, listeners: Listeners07, unique: Unique) -> None:
    topic = unique("theirs")
    today.write(listeners.today, topic, VALUES, "zstd")
    assert [value for _, value in client.run(listeners.old, "read", topic, COUNT)["read"]] == VALUES


def test_old_and_new_clients_take_turns_on_a_topic_and_all_see_the_same_in_the_same_order(
    listeners: Listeners07, unique: Unique
) -> None:
    topic = unique("turns")
    SAMSA.run(listeners.old, "write", topic, COUNT)
    today.write(listeners.today, topic, VALUES, "gzip")
    PROZESS.run(listeners.old, "write", topic, COUNT)
    FRANZ.run(listeners.old, "write", topic, COUNT)
    today.write(listeners.today, topic, VALUES, "lz4")
    found = SAMSA.run(listeners.old, "read", topic, 5 * COUNT)
    assert [value for _, value in found["read"]] == today.read(listeners.today, topic, 5 * COUNT) == VALUES * 5
    stands = [at for at, _ in found["read"]]
    assert stands == sorted(set(stands))
    assert SAMSA.run(listeners.old, "read", topic, 5 * COUNT) == found


def test_messages_that_franz_kafka_compresses_are_read_by_itself_and_by_a_client_of_today(
    listeners: Listeners07, unique: Unique
) -> None:
    topic = unique("gzip")
    FRANZ.run(listeners.old, "write-gzip", topic, COUNT)
    assert today.read(listeners.today, topic, COUNT) == VALUES
    assert [value for _, value in FRANZ.run(listeners.old, "read", topic, COUNT)["read"]] == VALUES


def test_samsa_hands_out_a_compressed_message_unopened(listeners: Listeners07, unique: Unique) -> None:
    topic = unique("gzip")
    FRANZ.run(listeners.old, "write-gzip", topic, COUNT)
    found = SAMSA.run(listeners.old, "read", topic, 1)
    assert [at for at, _ in found["read"]] == [0]
    value = found["read"][0][1]
    assert value.startswith("\x1f\x8b")
    assert found["last"] == HEAD_1 + len(value)


@pytest.mark.parametrize("client", [BROD, PYKAFKA, KAFKA_JS], ids=["brod", "pykafka", "kafka.js"])
def test_clients_of_magic_0_read_what_one_of_today_writes_on_a_listener_of_0_6(
    client: Client, listeners: Listeners07, unique: Unique
) -> None:
    topic = unique("theirs")
    today.write(listeners.today, topic, VALUES, "zstd")
    wanted = expected([HEAD_0] * COUNT)
    assert client.run(listeners.oldest, "read", topic, COUNT) == wanted
    assert SAMSA.run(listeners.old, "read", topic, COUNT) == {**wanted, "again": wanted["read"]}


@pytest.mark.parametrize("client", [PYKAFKA, KAFKA_JS], ids=["pykafka", "kafka.js"])
def test_clients_of_magic_0_take_the_last_byte_of_the_checksum_for_one_of_the_value(
    client: Client, listeners: Listeners07, unique: Unique
) -> None:
    topic = unique("theirs")
    today.write(listeners.today, topic, VALUES)
    found = client.run(listeners.old, "read", topic, COUNT)
    assert [value[1:] for _, value in found["read"]] == VALUES
    assert found["last"] == expected([HEAD_1] * COUNT)["last"]


def test_brod_takes_the_first_byte_after_a_message_of_magic_1_for_its_last_and_never_reaches_the_last_message(
    listeners: Listeners07, unique: Unique
) -> None:
    topic = unique("theirs")
    today.write(listeners.today, topic, VALUES)
    found = BROD.run(listeners.old, "read", topic, COUNT - 1)
    stands = standing([HEAD_1] * COUNT)
    assert found["read"] == [[at, value + "\x00"] for at, value in zip(stands, VALUES[:-1], strict=False)]


def test_prozess_loses_its_place_after_a_message_of_magic_0(listeners: Listeners07, unique: Unique) -> None:
    topic = unique("theirs")
    BROD.run(listeners.old, "write", topic, COUNT)
    assert PROZESS.run(listeners.old, "read", topic, 1)["read"] == [[0, "v0"]]


def test_franz_kafka_leaves_out_the_first_byte_of_a_message_of_magic_0(listeners: Listeners07, unique: Unique) -> None:
    topic = unique("theirs")
    BROD.run(listeners.old, "write", topic, COUNT)
    assert [value for _, value in FRANZ.run(listeners.old, "read", topic, COUNT)["read"]] == [value[1:] for value in VALUES]
