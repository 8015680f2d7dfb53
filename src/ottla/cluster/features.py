"""Decisions about the levels of the cluster's features (KIP-584), and the features that exist. The module uses no requests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from ottla.cluster import layout
from ottla.cluster.decision import Decision
from ottla.ports import Change
from ottla.wire.errors import INVALID_UPDATE_VERSION

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
OFF: Final = 0


class Feature(NamedTuple):
    """A feature of the cluster, and its lowest and highest level."""

    name: str
    lowest: int
    highest: int


class FeatureUpdate(NamedTuple):
    """A request to set a feature to a level. `upgrade_type` is Kafka's number."""

    name: str
    level: int
    upgrade_type: int = UPGRADE


GROUP_VERSION: Final = Feature("group.version", OFF, 1)
"""1: the consumer protocol (KIP-848)."""
TRANSACTION_VERSION: Final = Feature("transaction.version", OFF, 2)
"""1: states are stored in a format that can grow. 2: each transaction has an epoch of its own (KIP-890)."""
SHARE_VERSION: Final = Feature("share.version", OFF, 1)
"""1: share groups (KIP-932)."""
STREAMS_VERSION: Final = Feature("streams.version", OFF, 1)
"""1: the streams protocol (KIP-1071)."""
OFFERED: Final = {feature.name: feature for feature in (GROUP_VERSION, TRANSACTION_VERSION, SHARE_VERSION, STREAMS_VERSION)}
OFF_ONLY: Final = {name: Feature(name, OFF, OFF) for name in ("kraft.version", "eligible.leader.replicas.version")}
"""Kafka's other features. They are off and stay off: changes of their levels are refused, so that clients see what is missing."""
NEWEST: Final = {feature.name: feature.highest for feature in OFFERED.values()}
"""The feature levels of a new cluster."""

NONE_CHANGED: Final = "The update failed for all features since the following feature had an error:"
"""Kafka's words."""
ENABLED: Final = 1
"""The status of an entry whose levels are in force."""


def levels_in(value: bytes) -> dict[str, int]:
    """Parse the registry's entry of features, and return the finalized levels by name.

    Raises ValueError, LookupError, TypeError or AttributeError if the entry is invalid.
    """
    stored = layout.read(value)
    if stored.get("status", ENABLED) != ENABLED:
        return {}
    return {str(name): layout.whole(levels["max_version_level"], highest=2**15 - 1) for name, levels in stored["features"].items()}


def supported_features(features: Iterable[tuple[str, int, int]]) -> dict[str, Feature]:
    """Return the features that a broker supports, by name. Each argument is (name, lowest level, highest level)."""
    return {name: Feature(name, lowest, highest) for name, lowest, highest in features}


def unsupported_levels(levels: Mapping[str, int], offered: Mapping[str, Feature]) -> dict[str, int]:
    """Return the finalized levels that a broker with the features `offered` does not support, by feature name (KIP-584)."""
    return {
        name: level
        for name, level in levels.items()
        if (found := offered.get(name)) is None or not found.lowest <= level <= found.highest
    }


def served_by_all(offered: Mapping[str, Feature], brokers: Iterable[Mapping[str, Feature]]) -> dict[str, Feature]:
    """Return the features in `offered`, each limited to the levels that all `brokers` support.

    A feature that some broker lacks has `OFF` as its highest level.
    """
    highest = [{name: feature.highest for name, feature in each.items()} for each in brokers]
    return {
        name: one._replace(highest=min([one.highest, *(each.get(name, OFF) for each in highest)])) for name, one in offered.items()
    }


def update(present: Mapping[str, int], offered: Mapping[str, Feature], updates: Iterable[FeatureUpdate]) -> Decision:
    """Set features to the levels of `updates`, all of them or none. If a feature occurs several times, its last update counts.

    `present` is the level of each feature that is not off. `offered` are the features that can be updated, by name.
    """
    last = {wanted.name: wanted for wanted in updates}
    for wanted in last.values():
        why = _refusal(present.get(wanted.name, OFF), offered, wanted)
        if why:
            sentence = f"{NONE_CHANGED} Invalid update version {wanted.level} for feature {wanted.name}. {why}"
            return Decision(wanted.name, INVALID_UPDATE_VERSION, sentence)
    levels = {**present, **{wanted.name: wanted.level for wanted in last.values()}}
    after = {name: level for name, level in levels.items() if level != OFF}
    if after == present:
        return Decision("")
    return Decision("", changes=(Change(layout.FEATURES, layout.features_json(after)),))


def _refusal(present: int, offered: Mapping[str, Feature], wanted: FeatureUpdate) -> str:
    """Return why an update is refused, as a sentence; empty if it is allowed."""
    feature = offered.get(wanted.name)
    if wanted.upgrade_type not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        return f"There is no upgrade type {wanted.upgrade_type}; use 1 (upgrade), 2 (safe downgrade) or 3 (unsafe downgrade)."
    if feature is None:
        return f"The features here are {', '.join(offered) or 'none'}."
    if not feature.lowest <= wanted.level <= feature.highest:
        return f"It can have levels {feature.lowest} to {feature.highest}."
    if wanted.level < present and wanted.upgrade_type == UPGRADE:
        return f"Its level is {present}; use a safe downgrade."
    if wanted.level > present and wanted.upgrade_type != UPGRADE:
        return f"Its level is {present}; use an upgrade."
    return ""
