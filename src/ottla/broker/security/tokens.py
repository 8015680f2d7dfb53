"""The delegation tokens of the cluster: creation, lookup by HMAC, and expiry. Depends on the secret key, and not on requests.

A token's secret is the HMAC of its id under `delegation.token.secret.key`, which all brokers have and the registry does not
contain (KIP-48).
"""

from __future__ import annotations

import logging
from base64 import b64encode
from collections.abc import Callable, Collection, Iterator
from functools import partial
from typing import Final, NamedTuple

from ottla.broker.scheduler import Scheduler
from ottla.broker.settings import SettingsInForce
from ottla.broker.topics.commits import Commits
from ottla.cluster import layout, tokens
from ottla.cluster.decision import Decision
from ottla.cluster.image import ClusterImage
from ottla.cluster.names import printable
from ottla.cluster.tokens import DelegationToken, Lifetimes
from ottla.ports import Now, Steps
from ottla.sasl.scram import Credential

log = logging.getLogger("ottla.broker")

UNKNOWN_KEPT: Final = 16
"""Upper limit of cached HMACs of removed tokens."""


class TokenLogin(NamedTuple):
    """The SCRAM password of a token, the principal it authenticates, and its expiry."""

    password: str
    owner: str
    expiry_ms: int


class DelegationTokens:
    """The delegation tokens of the cluster: reads them from the cluster image, and changes them in the registry.

    `random_bytes` generates ids; `is_controller` returns whether this broker is the active controller.
    """

    def __init__(
        self,
        image: ClusterImage,
        commits: Commits,
        settings: SettingsInForce,
        random_bytes: Callable[[int], bytes],
        is_controller: Callable[[], bool],
    ) -> None:
        self._image = image
        self._commits = commits
        self._settings = settings
        self._random_bytes = random_bytes
        self._is_controller = is_controller
        self._ids: dict[bytes, str] = {}
        self._proofs: dict[str, bytes] = {}
        self.credentials: dict[tuple[str, str], Credential] = {}
        """SCRAM credentials by token id and mechanism. Logins add credentials, and this class removes them."""

    @property
    def is_on(self) -> bool:
        return bool(self._settings.value.delegation_token_secret_key)

    def proof(self, token_id: str) -> bytes:
        """Return the HMAC of a delegation token, which clients use as its password."""
        found = self._proofs.get(token_id)
        if found is None:
            import hmac

            found = hmac.digest((self._settings.value.delegation_token_secret_key or "").encode(), token_id.encode(), "sha512")
            self._proofs[token_id] = found
            self._ids[found] = token_id
        return found

    def login(self, token_id: str) -> TokenLogin | None:
        """Return the login of a token, even if the token has expired; None if the token does not exist."""
        token = self._image.tokens.get(token_id) if self.is_on else None
        if token is None:
            return None
        return TokenLogin(b64encode(self.proof(token_id)).decode(), token.owner, min(token.expiry_ms, token.max_ms))

    def create(self, owner: str, requester: str, renewers: Collection[str], max_lifetime_ms: int, now: Now) -> Steps[Decision]:
        """Create a token, and return a decision whose name is the token id. The steps must run to their end."""
        token_id = self._new_id()
        wanted = DelegationToken(token_id, owner, requester, tuple(renewers), now.wall_ms, now.wall_ms, now.wall_ms)
        decision = yield from self._commit(
            lambda: tokens.create(wanted, max_lifetime_ms, self._lifetimes, self._image.tokens.values())
        )
        if decision.is_made:
            log.info("delegation token %s was created for %s", token_id, printable(owner))
        return decision

    def renew(self, proof: bytes, principal: str, period_ms: int, now: Now) -> Steps[Decision]:
        """Extend the life of a token. The steps must run to their end."""
        return self._commit(lambda: tokens.renew(self._proven(proof), principal, period_ms, self._lifetimes, now.wall_ms))

    def expire(self, proof: bytes, principal: str, period_ms: int, now: Now) -> Steps[Decision]:
        """Make a token expire earlier, or now if `period_ms` is negative. The steps must run to their end."""
        return self._commit(lambda: tokens.expire(self._proven(proof), principal, period_ms, now.wall_ms))

    def token(self, token_id: str) -> DelegationToken | None:
        return self._image.tokens.get(token_id)

    def all(self) -> Iterator[DelegationToken]:
        return iter(list(self._image.tokens.values()))

    def keep_house(self, scheduler: Scheduler, now: Now) -> None:
        """Schedule the removal of expired tokens by the controller, every `delegation.token.expiry.check.interval.ms`."""

        def sweep(now: Now) -> None:
            scheduler.begin("delegation tokens", self._swept(now))

        if self.is_on:
            period = "delegation token check"
            scheduler.every(period, lambda: self._settings.value.delegation_token_expiry_check_interval_ms, sweep, now)

    def _swept(self, now: Now) -> Steps[None]:
        if self._is_controller():
            ended = yield from self._commits.commit_slowly(partial(tokens.sweep, self._image.tokens.values(), now.wall_ms))
            if ended:
                log.info("%d delegation tokens have expired and were removed", len(ended))
        self._forget_old()

    @property
    def _lifetimes(self) -> Lifetimes:
        settings = self._settings.value
        return Lifetimes(settings.delegation_token_max_lifetime_ms, settings.delegation_token_expiry_time_ms)

    def _commit(self, decide: Callable[[], Decision]) -> Steps[Decision]:
        (decision,) = yield from self._commits.commit_slowly(lambda: [decide()])
        return decision

    def _proven(self, proof: bytes) -> DelegationToken | None:
        """Return the delegation token whose HMAC is `proof`; None if no token has this HMAC."""
        if proof not in self._ids:
            for token_id in self._image.tokens.keys() - self._proofs.keys():
                self.proof(token_id)
        return self._image.tokens.get(self._ids.get(proof, ""))

    def _forget_old(self) -> None:
        """Forget the HMACs and credentials of removed tokens when many of them are cached."""
        if len(self._proofs) > len(self._image.tokens) + UNKNOWN_KEPT:
            self._proofs = {token_id: proof for token_id, proof in self._proofs.items() if token_id in self._image.tokens}
            self._ids = {proof: token_id for token_id, proof in self._proofs.items()}
            self.credentials.clear()

    def _new_id(self) -> str:
        """Return a random id that does not begin with a dash, so that it can be a command-line argument."""
        first, *others = self._random_bytes(16)
        return layout.uuid_text(bytes([first & 0x7F, *others]))
