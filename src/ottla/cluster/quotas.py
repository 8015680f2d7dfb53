"""Decisions about quotas by user, client id and address (KIP-13, 55, 124, 546, 599, 612).

The module defines which quotas each entity can have, and their entries in the registry. Requests and enforcement are elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from ipaddress import ip_address
from math import isnan
from typing import Final, NamedTuple

from ottla.cluster import layout
from ottla.cluster.decision import Decision
from ottla.ports import Change
from ottla.wire.errors import INVALID_REQUEST

PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"
CONNECTION_CREATION_RATE: Final = "connection_creation_rate"

WHOLE: Final = {PRODUCER_BYTE_RATE: "LONG", CONSUMER_BYTE_RATE: "LONG", CONNECTION_CREATION_RATE: "INT"}
"""The quotas that must be whole numbers, with the name of the integer type in which Kafka stores each."""
LARGEST: Final = {"LONG": (1 << 63) - 1, "INT": (1 << 31) - 1}
OF_CLIENTS: Final = (PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE, REQUEST_PERCENTAGE, CONTROLLER_MUTATION_RATE)
OF_ADDRESSES: Final = (CONNECTION_CREATION_RATE,)

USER, CLIENT_ID, IP = "user", "client-id", "ip"
TYPES: Final = (USER, CLIENT_ID, IP)
DEFAULT: Final = ""
"""The name that stands for all users, client ids or addresses without quotas of their own."""


class QuotaEntity(NamedTuple):
    """The owner of quotas: a user, a client id, both, or an address. `DEFAULT` is the default of a type; None is an absent type."""

    user: str | None = None
    client_id: str | None = None
    ip: str | None = None

    @property
    def names(self) -> dict[str, str | None]:
        """Return the names by entity type, as in requests. The name None means the default of its type."""
        return {kind: name or None for kind, name in zip(TYPES, self, strict=True) if name is not None}

    def __str__(self) -> str:
        return ", ".join(f"{kind} {'<default>' if name is None else name}" for kind, name in self.names.items())


class RefusedQuota(Exception):
    """Raised for an invalid quota. The text of the exception says why, in one sentence."""


def entity_of(named: list[tuple[str, str | None]]) -> QuotaEntity:
    """Return the entity of these (type, name) pairs. The name None means the default of its type. Raises `RefusedQuota`."""
    found: dict[str, str] = {}
    for kind, name in named:
        if kind not in TYPES:
            raise RefusedQuota(f"Unhandled client quota entity type: {kind}; there are {', '.join(TYPES)}.")
        if kind in found:
            raise RefusedQuota(f"Invalid client quota entity, duplicate entity entry {kind}: name it once.")
        if name == "":
            raise RefusedQuota(f"Empty {kind} not supported: give a name, or none for all.")
        if name is not None and layout.is_too_long(name):
            raise RefusedQuota(f"The {kind} is longer than {layout.LONGEST_NAME_BYTES} bytes: choose a shorter one.")
        found[kind] = DEFAULT if name is None else name
    if not found:
        raise RefusedQuota("Invalid empty client quota entity: name a user, a client-id or an ip.")
    if IP in found and len(found) > 1:
        raise RefusedQuota("Invalid quota entity combination, IP entity should not be combined with User or ClientId.")
    if found.get(IP):
        try:
            found[IP] = str(ip_address(found[IP]))
        except ValueError:
            raise RefusedQuota(f"{found[IP]} is not a valid IP: give an address, not the name of a host.") from None
    return QuotaEntity(found.get(USER), found.get(CLIENT_ID), found.get(IP))


def alter(
    entity: QuotaEntity, present: Mapping[QuotaEntity, Mapping[str, float]], ops: list[tuple[str, float | None]]
) -> dict[str, float]:
    """Return an entity's quotas after `ops`: (quota, value) sets a quota, (quota, None) removes it. Raises `RefusedQuota`."""
    after = dict(present.get(entity, {}))
    keys = [key for key, _ in ops]
    for key, value in ops:
        if keys.count(key) > 1:
            raise RefusedQuota(f"Duplicate quota key {key} not updating quota for this entity {entity}: give it once.")
        if value is None:
            after.pop(key, None)
        else:
            _check(entity, key, value)
            after[key] = value
    return after


def _check(entity: QuotaEntity, key: str, value: float) -> None:
    allowed = OF_CLIENTS if entity.ip is None else OF_ADDRESSES
    if key not in allowed:
        raise RefusedQuota(f"Invalid configuration key {key}; for {entity} there are {', '.join(allowed)}.")
    if isnan(value) or value <= 0:
        raise RefusedQuota(f"Quota {key} must be greater than 0.")
    kind = WHOLE.get(key)
    if kind is None:
        return
    if value > LARGEST[kind]:
        raise RefusedQuota(f"Proposed value for {key} is too large for a {kind}.")
    if abs(value % 1) > 1e-6:
        raise RefusedQuota(f"{key} cannot be a fractional value.")


def decide(
    entity: QuotaEntity,
    quotas: Mapping[str, float],
    user_configs: Mapping[str, Mapping[str, str]],
    may_go: Callable[[str], bool] = lambda user: False,
) -> Decision:
    """Replace all quotas of an entity. `user_configs` are all settings of each user; those other than quotas are kept.

    An entry without settings is removed. A user's entry is removed only if `may_go` returns True for the user.
    """
    texts = {key: str(round(value)) if key in WHOLE else repr(float(value)) for key, value in quotas.items()}
    if entity.user is not None and entity.client_id is None:
        kept = user_configs.get(entity.user, {})
        texts = {name: text for name, text in kept.items() if name not in OF_CLIENTS} | texts
    is_user = entity.user is not None and entity.client_id is None
    goes = not texts and (not is_user or may_go(entity.user or DEFAULT))
    return Decision(str(entity), changes=(Change(_path(entity), None if goes else layout.config_json(texts)),))


def refuse(name: str, why: RefusedQuota) -> Decision:
    """Return a decision that refuses a request, with the exception's text as its message."""
    return Decision(name, INVALID_REQUEST, str(why))


def quotas_in(configs: Mapping[str, str]) -> dict[str, float]:
    """Return the quotas among the settings of an entry. Raises `ValueError`."""
    found = {key: float(configs[key]) for key in (*OF_CLIENTS, *OF_ADDRESSES) if key in configs}
    for key, quota in found.items():
        if isnan(quota):
            raise ValueError(f"{key} is no number")
    return found


def _path(entity: QuotaEntity) -> str:
    if entity.ip is not None:
        return layout.ip_config_path(entity.ip)
    if entity.user is None:
        return layout.client_config_path(entity.client_id or DEFAULT)
    if entity.client_id is None:
        return layout.user_config_path(entity.user)
    return layout.user_client_config_path(entity.user, entity.client_id)
