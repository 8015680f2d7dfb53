"""The SCRAM credentials of the cluster, stored in the registry and effective at once. Depends on neither requests nor logins."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from ottla.broker.topics.commits import Commits
from ottla.cluster import layout, scram, unknown_users
from ottla.cluster.decision import Decision
from ottla.cluster.image import ClusterImage
from ottla.cluster.names import printable
from ottla.cluster.scram import ScramRemoval, ScramUpsertion
from ottla.cluster.unknown_users import SECRET_BYTES, UnknownUsers
from ottla.ports import Steps

if TYPE_CHECKING:
    from ottla.sasl.scram import Algorithm, Credential

log = logging.getLogger("ottla.broker")

USERS_AT_ONCE: Final = 200
"""Users whose credentials are changed in one commit, between two pauses."""


class Credentials:
    """The SCRAM credentials of all users: reads them from the cluster image, and changes them in the registry."""

    def __init__(self, image: ClusterImage, commits: Commits, random_bytes: Callable[[int], bytes]) -> None:
        self._image = image
        self._commits = commits
        self._random_bytes = random_bytes
        self._own_secret = random_bytes(SECRET_BYTES)

    def fake_credential(self, user: str, algorithm: Algorithm) -> Credential:
        """Return a fake credential for a user that does not exist, so that clients cannot find out which users exist.

        It is equal on all brokers, and does not depend on other users. It is derived from the cluster's secret, or from this
        broker's own secret until the registry has the cluster's.
        """
        from ottla.sasl.dummy_credentials import USUAL, dummy_credential

        known = self._image.unknown_users or UnknownUsers(self._own_secret)
        return dummy_credential(algorithm, known.secret, user, known.likenesses.get(algorithm.name, USUAL))

    def hide_unknown_users(self) -> Steps[list[Decision]]:
        """Write the secret from which fake credentials of unknown users are derived to the registry. Return the decisions made.

        Write nothing, and return an empty list, if the registry already has the secret.
        """
        return self._commits.commit_slowly(self._decide_hiding)

    def _decide_hiding(self) -> list[Decision]:
        changes = unknown_users.keep(self._image.unknown_users, self._first, self._random_bytes)
        return [Decision(layout.UNKNOWN_USERS, changes=changes)] if changes else []

    def find(self, user: str, algorithm: Algorithm) -> Credential | None:
        return scram.credential_in(self._image.user_configs.get(user, {}), algorithm)

    def _first(self, algorithm: Algorithm) -> Credential | None:
        """Return the first readable credential for this algorithm in the order of user names; None if there is none."""
        users = sorted(user for user, configs in self._image.user_configs.items() if algorithm.name in configs)
        return next(filter(None, (self.find(user, algorithm) for user in users)), None)

    def of(self, user: str) -> dict[Algorithm, Credential]:
        return scram.credentials_in(self._image.user_configs.get(user, {}))

    def users(self) -> list[str]:
        """Return all users that may have credentials."""
        return list(self._image.user_configs)

    def alter(self, removals: Sequence[ScramRemoval], upsertions: Sequence[ScramUpsertion]) -> Steps[list[Decision]]:
        """Apply removals and upsertions, and return one decision per user. The steps must run to their end."""
        wanted: list[ScramRemoval | ScramUpsertion] = [*removals, *upsertions]
        users = list(dict.fromkeys(one.user for one in wanted))
        decisions: list[Decision] = []
        for begin in range(0, len(users), USERS_AT_ONCE):
            some = frozenset(users[begin : begin + USERS_AT_ONCE])
            chosen = [one for one in removals if one.user in some], [one for one in upsertions if one.user in some]
            decisions += yield from self._commits.commit_slowly(partial(self._decisions, *chosen))
        yield from self.hide_unknown_users()
        changed = [decision.name for decision in decisions if decision.is_made]
        if changed:
            log.info("the SCRAM credentials of %s have changed", ", ".join(map(printable, changed[:10])))
        return decisions

    def _decisions(self, removals: Sequence[ScramRemoval], upsertions: Sequence[ScramUpsertion]) -> list[Decision]:
        return scram.alter(self._image.user_configs, removals, upsertions, self._image.can_remove_user)
