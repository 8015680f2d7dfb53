"""Quotas in the registry: where they stand, what is refused, and that nothing else of an entry is lost."""

from __future__ import annotations

import json

import pytest

from ottla.cluster.image import ClusterImage
from ottla.cluster.quotas import (
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    QuotaEntity,
    RefusedQuota,
    alter,
    decide,
    entity_of,
)
from ottla.cluster.registry_entries import apply_entry, load
from ottla.sim.registry import MemoryRegistry

ALICE = QuotaEntity(user="alice")


def take(image: ClusterImage, registry: MemoryRegistry, entity: QuotaEntity, **quotas: float) -> str:
    """Set quotas as a broker does; returns where they stand."""
    (change,) = decide(entity, quotas, image.user_configs).changes
    registry.commit([change])
    apply_entry(image, change.path, change.value)
    return change.path


@pytest.mark.parametrize(
    ("entity", "path"),
    [
        (ALICE, "/config/users/alice"),
        (QuotaEntity(user=""), "/config/users/<default>"),
        (QuotaEntity(user="a/b c"), "/config/users/a%2Fb%20c"),
        (QuotaEntity(user="<default>"), "/config/users/%3Cdefault%3E"),
        (QuotaEntity(user="alice", client_id="app"), "/config/users/alice/clients/app"),
        (QuotaEntity(user="", client_id=""), "/config/users/<default>/clients/<default>"),
        (QuotaEntity(client_id="app"), "/config/clients/app"),
        (QuotaEntity(ip="10.0.0.1"), "/config/ips/10.0.0.1"),
    ],
)
def test_quotas_stand_where_zookeeper_had_them_and_are_read_again(entity: QuotaEntity, path: str) -> None:
    image, registry = ClusterImage(), MemoryRegistry()
    quotas = {CONNECTION_CREATION_RATE: 5.0} if entity.ip else {PRODUCER_BYTE_RATE: 1024.0, REQUEST_PERCENTAGE: 12.5}
    assert take(image, registry, entity, **quotas) == path
    again = ClusterImage()
    load(again, registry)
    assert again.quotas == image.quotas == {entity: quotas}


def test_whole_numbers_are_written_as_such() -> None:
    (change,) = decide(ALICE, {PRODUCER_BYTE_RATE: 1e6, CONTROLLER_MUTATION_RATE: 0.5}, {}).changes
    assert change.value is not None
    assert json.loads(change.value)["config"] == {PRODUCER_BYTE_RATE: "1000000", CONTROLLER_MUTATION_RATE: "0.5"}


def test_what_else_is_set_for_a_user_is_kept() -> None:
    image, registry = ClusterImage(), MemoryRegistry()
    apply_entry(image, "/config/users/alice", b'{"version":1,"config":{"SCRAM-SHA-256":"salt=x","producer_byte_rate":"7"}}')
    take(image, registry, ALICE, **{CONSUMER_BYTE_RATE: 9.0})
    assert image.user_configs["alice"] == {"SCRAM-SHA-256": "salt=x", CONSUMER_BYTE_RATE: "9"}
    assert image.quotas == {ALICE: {CONSUMER_BYTE_RATE: 9.0}}
    take(image, registry, ALICE)
    assert (image.user_configs["alice"], image.quotas) == ({"SCRAM-SHA-256": "salt=x"}, {})


def test_one_is_changed_and_the_others_stay() -> None:
    present = {ALICE: {PRODUCER_BYTE_RATE: 1.0, CONSUMER_BYTE_RATE: 2.0}}
    assert alter(ALICE, present, [(PRODUCER_BYTE_RATE, None), (REQUEST_PERCENTAGE, 3.0), (CONTROLLER_MUTATION_RATE, None)]) == {
        CONSUMER_BYTE_RATE: 2.0,
        REQUEST_PERCENTAGE: 3.0,
    }


@pytest.mark.parametrize(
    ("named", "sentence"),
    [
        ([], "Invalid empty client quota entity"),
        ([("group", "g")], "Unhandled client quota entity type: group"),
        ([("user", "")], "Empty user not supported"),
        ([("user", "a"), ("user", "b")], "duplicate entity entry user"),
        ([("ip", None), ("user", "a")], "IP entity should not be combined"),
        ([("ip", "nowhere")], "nowhere is not a valid IP"),
    ],
)
def test_an_entity_that_cannot_be_is_refused(named: list[tuple[str, str | None]], sentence: str) -> None:
    with pytest.raises(RefusedQuota, match=sentence):
        entity_of(named)


def test_an_address_has_one_spelling() -> None:
    assert entity_of([("ip", "0:0:0::1")]) == QuotaEntity(ip="::1")


@pytest.mark.parametrize(
    ("entity", "ops", "sentence"),
    [
        (ALICE, [("max_rate", 1.0)], "Invalid configuration key max_rate"),
        (ALICE, [(CONNECTION_CREATION_RATE, 1.0)], "Invalid configuration key connection_creation_rate"),
        (QuotaEntity(ip=""), [(PRODUCER_BYTE_RATE, 1.0)], "Invalid configuration key producer_byte_rate"),
        (ALICE, [(PRODUCER_BYTE_RATE, 0.0)], "must be greater than 0"),
        (ALICE, [(REQUEST_PERCENTAGE, float("nan"))], "must be greater than 0"),
        (ALICE, [(PRODUCER_BYTE_RATE, 1.5)], "cannot be a fractional value"),
        (ALICE, [(PRODUCER_BYTE_RATE, 1e30)], "too large for a LONG"),
        (QuotaEntity(ip=""), [(CONNECTION_CREATION_RATE, 3e9)], "too large for a INT"),
        (ALICE, [(PRODUCER_BYTE_RATE, 1.0), (PRODUCER_BYTE_RATE, 2.0)], "Duplicate quota key producer_byte_rate"),
    ],
)
def test_a_quota_that_cannot_be_is_refused(entity: QuotaEntity, ops: list[tuple[str, float | None]], sentence: str) -> None:
    with pytest.raises(RefusedQuota, match=sentence):
        alter(entity, {}, ops)


def test_a_quota_in_the_registry_that_is_no_number_is_not_taken() -> None:
    """Nothing can be reckoned with it: each request of its client was refused as a mistake."""
    image = ClusterImage()
    with pytest.raises(ValueError, match=r"producer_byte_rate is no number"):
        apply_entry(image, "/config/clients/c", b'{"version":1,"config":{"producer_byte_rate":"NaN"}}')
    assert not image.quotas
