"""Methods of other Kafka clients on Ottla's: missing like any attribute, with the equivalent in the error."""

from __future__ import annotations

import abc
import copy
import inspect
from typing import Any, Protocol

import pytest

import ottla
from ottla.client.other_clients import CLASSES, METHODS, Equivalent
from ottla.client.other_names import NAMES, missing_method

KINDS = [getattr(ottla, kind) for kind in ("Producer", "AsyncProducer", "Consumer", "AsyncConsumer", "Admin", "AsyncAdmin")]
MEANT = [
    (ottla.Producer, "produce", "Producer has no method produce; it is called send here. Waits while buffer_memory is full"),
    (ottla.AsyncProducer, "send_and_wait", "it is called send here. await"),
    (ottla.AsyncProducer, "stop", "AsyncProducer has no method stop; it is called close here. Or async with"),
    (ottla.Producer, "send_offsets_to_transaction", "it is called send_offsets here"),
    (ottla.Consumer, "consume", "it is called poll here"),
    (ottla.Consumer, "partitions_for_topic", "it is called partitions_for here"),
    (ottla.AsyncConsumer, "getmany", "it is called poll here"),
    (ottla.Consumer, "topics", r"Consumer has no method topics; Admin.list_topics\(\)"),
    (ottla.Consumer, "start", "started when it is made"),
    (ottla.Admin, "describe_consumer_groups", "it is called describe_groups here"),
]


@pytest.mark.parametrize(("kind", "name", "message"), MEANT)
def test_a_method_of_another_client_is_missing_and_its_equivalent_is_named(kind: type, name: str, message: str) -> None:
    client: Any = object.__new__(kind)
    with pytest.raises(AttributeError, match=message) as caught:
        getattr(client, name)
    assert (caught.value.name, caught.value.obj) == (name, client)
    assert not hasattr(client, name)
    assert not hasattr(kind, name)
    assert name not in dir(client)
    assert name not in dir(kind)
    assert getattr(client, name, 5) == 5


@pytest.mark.parametrize("kind", KINDS)
def test_every_method_of_other_clients_is_there_or_named(kind: type) -> None:
    plain = kind.__name__.removeprefix("Async")
    theirs = {name for library, ours in CLASSES.items() if ours.endswith(plain) for name in METHODS[library]} - {"poll"}
    missing = {name for name in theirs if not hasattr(kind, name)}
    assert missing <= set(NAMES[plain].split()) <= theirs | {"poll", "start"}
    for name in missing:
        with pytest.raises(AttributeError, match=f"{kind.__name__} has no method {name}; .*\\w"):
            getattr(object.__new__(kind), name)


def test_a_subclass_may_use_the_names() -> None:
    class Own(ottla.Consumer):
        def consume(self) -> str:
            return "mine"

    own = object.__new__(Own)
    own.__dict__["topics"] = ["t"]
    assert own.consume() == "mine"
    assert getattr(own, "topics") == ["t"]  # noqa: B009  # it is no attribute of the class
    assert {"consume", "topics"} <= set(dir(own))


@pytest.mark.parametrize("kind", KINDS)
def test_a_class_can_derive_from_a_client_and_from_what_has_another_metaclass(kind: type) -> None:
    class Reads(Protocol):
        def read(self) -> int: ...

    class Own(kind, Reads, abc.ABC):  # type: ignore[misc]  # mypy follows no class of a parameter
        @abc.abstractmethod
        def work(self) -> int: ...

    with pytest.raises(TypeError, match="abstract"):
        Own()


def test_a_name_without_an_equivalent_is_missing_like_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS["confluent_kafka.Producer"], "unheard_of", Equivalent())
    assert missing_method("Producer", "unheard_of") == "Producer has no method unheard_of."


def test_errors_of_python_name_the_class_that_programs_use() -> None:
    producer: Any = object.__new__(ottla.Producer)
    with pytest.raises(TypeError, match=r"^Producer\.send\(\) takes from 2 to 3 positional"):
        producer.send("t", b"v", b"key")
    with pytest.raises(TypeError, match=r"^Producer\.send_table\(\) takes 3 positional"):
        producer.send_table("t", None, "key")


@pytest.mark.parametrize("kind", KINDS)
def test_access_to_other_attributes_costs_nothing(kind: type) -> None:
    assert inspect.getattr_static(kind, "__getattr__", None) is None
    assert inspect.getattr_static(kind, "__getattribute__") is object.__getattribute__
    with pytest.raises(TypeError, match="cannot be copied"):
        copy.copy(object.__new__(kind))
