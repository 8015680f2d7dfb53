"""Levels of features: kept in the registry as other tools read it, all of an update or nothing, and in force at once."""

from __future__ import annotations

import json

import pytest

from ottla.cluster import layout
from ottla.cluster.features import GROUP_VERSION, SAFE_DOWNGRADE, TRANSACTION_VERSION, UPGRADE
from ottla.wire.api.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from ottla.wire.errors import INVALID_UPDATE_VERSION, KAFKA_STORAGE_ERROR, NONE
from tests.support.machine import Machine
from tests.unit.broker.test_config_requests import CountedMachine
from tests.unit.broker.test_releases import machine_of

UPDATE_FEATURES = UpdateFeaturesRequest.WIRE.key


def updated(machine: Machine, kind: int, **levels: int) -> UpdateFeaturesResponse:
    update = UpdateFeaturesRequest.FeatureUpdateKey
    wanted = [update(feature=name.replace("_", "."), max_version_level=level, upgrade_type=kind) for name, level in levels.items()]
    response = machine.ask(UPDATE_FEATURES, 2, UpdateFeaturesRequest(feature_updates=wanted))
    assert isinstance(response, UpdateFeaturesResponse)
    return response


def told(machine: Machine) -> tuple[int, int, int]:
    """The levels of transactions and groups, and the epoch."""
    features = machine.broker.features
    return features.level(TRANSACTION_VERSION), features.level(GROUP_VERSION), features.epoch


def test_levels_are_kept_as_the_registry_of_kafka_has_them_and_outlive_a_restart() -> None:
    machine = Machine()
    entry = machine.registry.get(layout.FEATURES)
    assert entry is not None
    newest = {"group.version": 1, "transaction.version": 2, "share.version": 1, "streams.version": 1}
    entries = {name: {"max_version_level": level} for name, level in newest.items()}
    assert json.loads(entry.value) == {"features": entries, "version": 2, "status": 1}
    assert told(machine) == (2, 1, 0)
    assert updated(machine, SAFE_DOWNGRADE, transaction_version=1, group_version=0).error_code == NONE
    entry = machine.registry.get(layout.FEATURES)
    assert entry is not None
    entries["transaction.version"] = {"max_version_level": 1}
    del entries["group.version"]
    assert json.loads(entry.value) == {"features": entries, "version": 2, "status": 1}
    machine.restart()
    assert told(machine) == (1, 0, 1)
    assert updated(machine, UPGRADE, transaction_version=2).error_code == NONE
    assert told(machine) == (2, 0, 2)


def test_an_update_that_changes_nothing_is_no_change_of_the_registry() -> None:
    machine = CountedMachine()
    before = machine.counting.commits
    assert updated(machine, UPGRADE, transaction_version=2, group_version=1).error_code == NONE
    assert machine.counting.commits == before


@pytest.mark.expects_errors("refused")
def test_a_disk_that_refuses_the_change_leaves_the_levels_as_they_are() -> None:
    machine = CountedMachine()
    machine.counting.is_full = True
    assert updated(machine, SAFE_DOWNGRADE, transaction_version=1).error_code == KAFKA_STORAGE_ERROR
    assert told(machine) == (2, 1, 0)
    machine.counting.is_full = False
    assert updated(machine, SAFE_DOWNGRADE, transaction_version=1).error_code == NONE
    assert told(machine) == (1, 1, 1)


def test_a_listener_of_a_release_without_features_has_none_to_update() -> None:
    machine = machine_of("3.9")
    response = machine.ask(
        UPDATE_FEATURES,
        1,
        UpdateFeaturesRequest(
            feature_updates=[UpdateFeaturesRequest.FeatureUpdateKey(feature="transaction.version", max_version_level=2)]
        ),
    )
    assert response.error_code == INVALID_UPDATE_VERSION
    assert "The features here are none" in response.error_message
