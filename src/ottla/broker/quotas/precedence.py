"""The precedence of quotas: of all quotas that match a user and a client id, the most specific quota applies (KIP-55).

Depends on entities and numbers, and not on time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ottla.cluster.quotas import DEFAULT, QuotaEntity


class Bound(NamedTuple):
    """A quota per second, and its owner. Clients with the same `owner` share the quota."""

    per_second: float
    owner: QuotaEntity


def bound_of(quotas: Mapping[QuotaEntity, float], user: str, client_id: str) -> Bound | None:
    """Return the quota of a user and client id; None if no quota applies.

    A default quota applies to each user or client id separately. An empty name matches no quota.
    """
    for entity in _candidates(user, client_id):
        found = quotas.get(entity)
        if found is not None:
            owner = QuotaEntity(None if entity.user is None else user, None if entity.client_id is None else client_id)
            return Bound(found, owner)
    return None


def _candidates(user: str, client_id: str) -> list[QuotaEntity]:
    """Return the entities that match, most specific first."""
    of_users = [user, DEFAULT] if user else []
    of_clients = [client_id, DEFAULT] if client_id else []
    found: list[QuotaEntity] = []
    for one in of_users:
        found += [QuotaEntity(one, client) for client in of_clients]
        found.append(QuotaEntity(one))
    return found + [QuotaEntity(None, client) for client in of_clients]
