"""Which quota holds for whom: of all that fit a user and a client id, the one that says most precisely whom it means (KIP-55).

Knows entities and numbers; knows no time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ottla.cluster.quotas import DEFAULT, QuotaEntity


class Bound(NamedTuple):
    """A quota of so much a second, and whose it is: all that have the same `owner` share it."""

    per_second: float
    owner: QuotaEntity


def bound_of(quotas: Mapping[QuotaEntity, float], user: str, client_id: str) -> Bound | None:
    """The quota of a user who calls himself by a client id; None without any.

    One that is for all of a kind holds for each of them on its own. An empty name has no quota by that name.
    """
    for entity in _candidates(user, client_id):
        found = quotas.get(entity)
        if found is not None:
            owner = QuotaEntity(None if entity.user is None else user, None if entity.client_id is None else client_id)
            return Bound(found, owner)
    return None


def _candidates(user: str, client_id: str) -> list[QuotaEntity]:
    """From the most precise on."""
    of_users = [user, DEFAULT] if user else []
    of_clients = [client_id, DEFAULT] if client_id else []
    found: list[QuotaEntity] = []
    for one in of_users:
        found += [QuotaEntity(one, client) for client in of_clients]
        found.append(QuotaEntity(one))
    return found + [QuotaEntity(None, client) for client in of_clients]
