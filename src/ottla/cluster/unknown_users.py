"""The entry that prevents SCRAM logins from showing which users exist: a secret, and the parameters of real credentials.

All brokers derive the salts of users that do not exist from the secret. The secret is written once and never changes, so these
salts are as constant as the salts of real users.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from ottla.cluster import layout
from ottla.ports import Change
from ottla.sasl.dummy_credentials import Likeness, likeness_of
from ottla.sasl.scram import ALGORITHMS, Algorithm, Credential

SECRET_BYTES: Final = 32


class UnknownUsers(NamedTuple):
    """The registry entry with the secret from which fake credentials of unknown users are derived.

    `likenesses` are the parameters of each mechanism's first credential, by the mechanism's name. Fake credentials copy them.
    """

    secret: bytes
    likenesses: Mapping[str, Likeness] = MappingProxyType({})


def read(value: bytes) -> UnknownUsers:
    """Parse the registry entry about unknown users. Raises an exception of `layout.NOT_UNDERSTOOD` if it is invalid."""
    stored = layout.read(value)
    secret = b64decode(stored["secret"], validate=True)
    if len(secret) < SECRET_BYTES:
        raise ValueError(f"a secret of {len(secret)} bytes is too short")
    likenesses = {
        name: Likeness(int(one["iterations"]), int(one["salt_bytes"]), bool(one["is_text"]))
        for name, one in stored["likenesses"].items()
    }
    return UnknownUsers(secret, likenesses)


def keep(
    present: UnknownUsers | None, first: Callable[[Algorithm], Credential | None], random_bytes: Callable[[int], bytes]
) -> tuple[Change, ...]:
    """Return the change that creates the entry about unknown users, or adds mechanisms to it; () if nothing is missing.

    Mechanisms are added if `first` returns a credential for them.
    """
    missing = [one for one in ALGORITHMS.values() if present is None or one.name not in present.likenesses]
    found = {algorithm.name: first(algorithm) for algorithm in missing}
    new = {name: likeness_of(credential) for name, credential in found.items() if credential is not None}
    if present is not None and not new:
        return ()
    known = present or UnknownUsers(random_bytes(SECRET_BYTES))
    return (Change(layout.UNKNOWN_USERS, _json(known._replace(likenesses={**known.likenesses, **new}))),)


def _json(known: UnknownUsers) -> bytes:
    likenesses = {name: one._asdict() for name, one in sorted(known.likenesses.items())}
    return layout.json_bytes({"version": 1, "secret": b64encode(known.secret).decode(), "likenesses": likenesses})
