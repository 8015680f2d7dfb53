"""Messages as trees: every value where it stands, and of broken ones what comes before the fault."""

from __future__ import annotations

import random

import pytest

from ottla.wire import encode
from ottla.wire.api.metadata import MetadataRequest, MetadataResponse
from ottla.wire.inspection.tree import ARRAY, LEAF, ValueNode, tree_of
from ottla.wire.inspection.walk import leaves
from ottla.wire.schema import Message
from ottla.wire.stored_messages import CONSUMER_OFFSETS, INSIDE, SHARE_GROUP_STATE, TRANSACTION_STATE, others, record_types
from tests.fuzz.mutations import mutations
from tests.unit.wire.values import EVERY, STORED, sample


def leaves_below(node: ValueNode) -> list[tuple[int, object]]:
    if node.kind == LEAF:
        return [(node.start, node.value)]
    if node.kind == ARRAY and not node.below:
        return [(node.start, [])]
    return [leaf for child in node.below for leaf in leaves_below(child)]


@pytest.mark.parametrize("cls", EVERY, ids=lambda cls: cls.__name__)
def test_a_tree_has_just_the_values_of_the_message(cls: type[Message]) -> None:
    rng = random.Random(3)
    for version in cls.WIRE.valid:
        data = encode(sample(cls, version, rng), version)
        root, fault = tree_of(cls, version, data)
        assert not fault
        assert leaves_below(root) == [(leaf.start, leaf.value) for leaf in leaves(cls, version, data)]
        for broken in list(mutations([data], rng))[:5]:
            tree_of(cls, version, broken)


def test_names_kinds_and_places() -> None:
    brokers = [MetadataResponse.MetadataResponseBroker(node_id=n, host="h", port=1) for n in (7, 8)]
    root, _ = tree_of(MetadataResponse, 1, encode(MetadataResponse(brokers=brokers), 1))
    array = root.below[0]
    assert (array.name, array.kind, array.start, len(array.below)) == ("brokers", ARRAY, 0, 2)
    second = array.below[1]
    assert (second.name, second.start) == ("[1]", 17)
    assert [(leaf.name, leaf.value) for leaf in second.below] == [("node_id", 8), ("host", "h"), ("port", 1), ("rack", None)]
    assert second.below[1].field is not None
    assert second.below[1].field.kind == "str"


def test_what_comes_before_the_fault_is_there() -> None:
    topics = [MetadataRequest.MetadataRequestTopic(name=name) for name in ("flights", "delays")]
    data = encode(MetadataRequest(topics=topics), 1)
    root, fault = tree_of(MetadataRequest, 1, data[:-3])
    assert fault == "MetadataRequest v1, topics[1].name at byte 15: string of 6 bytes runs past the end: 3 are left"
    assert [leaf.value for leaf in root.below[0].below[0].below] == ["flights"]
    assert root.below[0].note == "1 of 2"


def test_unknown_tags_are_named_by_their_number() -> None:
    msg = MetadataRequest(topics=None, unknown_tags=((90, b"new"),))
    root, _ = tree_of(MetadataRequest, 9, encode(msg, 9))
    assert (root.below[-1].name, root.below[-1].value) == ("unknown_tags[90]", b"new")


def test_every_stored_key_and_value_is_found_in_the_records_of_its_topic() -> None:
    found = {
        cls
        for topic in (CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE)
        for pair in record_types(topic).values()
        for cls in pair
    }
    assert found == {cls for cls in STORED if cls.__name__.endswith(("Key", "Value"))}
    assert sorted(record_types(CONSUMER_OFFSETS)) == [*range(18), *range(19, 24)]


def test_fields_that_hold_other_messages_are_fields_of_bytes() -> None:
    by_name = {cls.__name__: cls for cls in EVERY}
    for (message, path), inner in INSIDE.items():
        owner, kind = by_name[message], ""
        fields = {f.name: f for f in owner.WIRE.fields}
        for step in path.split("."):
            f = fields[step]
            kind = f.kind
            fields = {inside.name: inside for inside in f.struct.WIRE.fields} if f.kind == "struct" else {}
        assert kind == "bytes"
        assert inner in others().values()
