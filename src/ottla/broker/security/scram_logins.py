"""SCRAM as a listener offers it: users of the registry, and delegation tokens (KIP-84, KIP-48)."""

from __future__ import annotations

from functools import partial

from ottla.broker.security.offers import Begin, Means, OfferedAt
from ottla.sasl.scram import Algorithm, nonce
from ottla.sasl.scram_server import Account, ScramServer

SECRET_BYTES = 32


def scram(algorithm: Algorithm, at: OfferedAt, means: Means) -> Begin:
    """Users are those of the registry; there is nothing to set."""
    secret = means.random_bytes(SECRET_BYTES)
    lookup = partial(_account, algorithm, means)
    return lambda: ScramServer(algorithm, lookup, nonce(means.random_bytes), secret)


def _account(algorithm: Algorithm, means: Means, name: str, is_token: bool) -> Account | None:
    if is_token:
        return None
    credential = means.credentials.find(name, algorithm)
    return None if credential is None else Account(name, credential)
