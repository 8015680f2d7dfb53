"""What the cluster keeps so that a login of SCRAM shows nobody which users exist: a secret, and what real credentials are like.

All brokers derive from it the salts of users that do not exist. It is written once, and stays as it is whatever becomes of users:
only real credentials ever change, as their passwords do, and nobody can see who has which.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from ottla.cluster import layout
from ottla.ports import Change
from ottla.sasl.scram import ALGORITHMS, Algorithm, Credential
from ottla.sasl.scram_server import Likeness, likeness_of

SECRET_BYTES: Final = 32


class UnknownUsers(NamedTuple):
    """`likenesses` are of the first credential that there was of each mechanism, by its name."""

    secret: bytes
    likenesses: Mapping[str, Likeness] = MappingProxyType({})


def read(value: bytes) -> UnknownUsers:
    """Read the entry. Raises several errors where it can't be understood."""
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
    """Return the change that makes the entry, or adds the mechanisms that have a `first` credential now; none if it has all."""
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
