"""Decisions about SCRAM credentials, and their form in the registry (KIP-84, KIP-554).

Credentials are among the user's settings, in Kafka's format. Requests and logins are elsewhere.
"""

from __future__ import annotations

import binascii
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from ottla.cluster import layout
from ottla.cluster.decision import Decision
from ottla.ports import Change
from ottla.sasl.scram import ALGORITHMS, LEAST_ITERATIONS, Algorithm, Credential, credential_of
from ottla.wire.errors import DUPLICATE_RESOURCE, RESOURCE_NOT_FOUND, UNACCEPTABLE_CREDENTIAL, UNSUPPORTED_SASL_MECHANISM

MOST_ITERATIONS: Final = 16384
MOST_NAME: Final = 255
"""The longest name of a user, in bytes: it becomes the name of an entry."""
BY_NUMBER: Final = {algorithm.number: algorithm for algorithm in ALGORITHMS.values()}

UserConfigs = Mapping[str, Mapping[str, str]]
"""The settings of each user, by name."""


class ScramRemoval(NamedTuple):
    """A request to remove a user's credential of one mechanism. `number` is the mechanism's number in the protocol."""

    user: str
    number: int


class ScramUpsertion(NamedTuple):
    """A request to set a user's credential of one mechanism from a salted password. `number` is the mechanism's number."""

    user: str
    number: int
    iterations: int
    salt: bytes
    salted: bytes

    def __repr__(self) -> str:
        return f"ScramUpsertion({self.user!r}, {self.number})"


def text_of(credential: Credential) -> str:
    """Encode a credential as the value of a user's setting."""
    salt, stored, server = (b64encode(part).decode() for part in (credential.salt, credential.stored_key, credential.server_key))
    return f"salt={salt},stored_key={stored},server_key={server},iterations={credential.iterations}"


def credential_in(configs: Mapping[str, str], algorithm: Algorithm) -> Credential | None:
    """Return the credential of this mechanism from a user's settings; None if it is missing or cannot be parsed."""
    parts = dict(part.partition("=")[::2] for part in configs.get(algorithm.name, "").split(","))
    try:
        salt, stored, server = (b64decode(parts[key], validate=True) for key in ("salt", "stored_key", "server_key"))
        iterations = int(parts["iterations"])
    except (LookupError, ValueError, binascii.Error):
        return None
    return Credential(salt, stored, server, iterations) if len(stored) == len(server) == algorithm.size else None


def credentials_in(configs: Mapping[str, str]) -> dict[Algorithm, Credential]:
    """Return all valid credentials from a user's settings, by mechanism."""
    found = {algorithm: credential_in(configs, algorithm) for algorithm in ALGORITHMS.values()}
    return {algorithm: credential for algorithm, credential in found.items() if credential is not None}


def alter(
    present: UserConfigs,
    removals: Sequence[ScramRemoval],
    upsertions: Sequence[ScramUpsertion],
    may_go: Callable[[str], bool] = lambda user: False,
) -> list[Decision]:
    """Return one decision for each user, with the user as its name. A user that occurs twice is refused.

    The entry of a user without remaining settings is removed if `may_go` returns True for the user.
    """
    wanted: list[ScramRemoval | ScramUpsertion] = [*removals, *upsertions]
    times = Counter(one.user for one in wanted)
    once = {one.user: one for one in wanted}
    return [_twice(user) if times[user] > 1 else _decide(present, one, may_go) for user, one in once.items()]


def _decide(present: UserConfigs, wanted: ScramRemoval | ScramUpsertion, may_go: Callable[[str], bool]) -> Decision:
    user, algorithm = wanted.user, BY_NUMBER.get(wanted.number)
    if not user or len(user.encode()) > MOST_NAME:
        return Decision(user[:MOST_NAME], UNACCEPTABLE_CREDENTIAL, f"A user has a name of 1 to {MOST_NAME} bytes: choose one.")
    if algorithm is None:
        known = ", ".join(f"{one.number} ({one.name})" for one in BY_NUMBER.values())
        return Decision(user, UNSUPPORTED_SASL_MECHANISM, f"There is no SCRAM mechanism {wanted.number}: use one of {known}.")
    configs = dict(present.get(user, {}))
    if isinstance(wanted, ScramUpsertion):
        why = _refusal(wanted)
        if why is not None:
            return Decision(user, UNACCEPTABLE_CREDENTIAL, why)
        configs[algorithm.name] = text_of(credential_of(algorithm, wanted.salted, wanted.salt, wanted.iterations))
    elif configs.pop(algorithm.name, None) is None:
        return Decision(
            user, RESOURCE_NOT_FOUND, f"User {user} has no credential for {algorithm.name}: there is nothing to remove."
        )
    value = None if not configs and may_go(user) else layout.config_json(configs)
    return Decision(user, changes=(Change(layout.user_config_path(user), value),))


def _refusal(wanted: ScramUpsertion) -> str | None:
    """Return why a credential is refused; None if it is valid. As in Kafka, the size of a salted password is not checked."""
    if not LEAST_ITERATIONS <= wanted.iterations <= MOST_ITERATIONS:
        few = "few" if wanted.iterations < LEAST_ITERATIONS else "many"
        return f"Too {few} iterations: choose {LEAST_ITERATIONS} to {MOST_ITERATIONS}."
    if not wanted.salted or not wanted.salt:
        return "A credential needs a salted password and its salt: send both."
    return None


def _twice(user: str) -> Decision:
    return Decision(user, DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request: name each user once.")
