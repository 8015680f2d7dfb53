"""SCRAM on a listener: users in the registry, and delegation tokens (KIP-84, KIP-48)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ottla.broker.security.offers import Begin, Means, OfferedAt
from ottla.cluster.tokens import USER
from ottla.sasl.scram import LEAST_ITERATIONS, NONCE_BYTES, Algorithm, credential_of, letters, nonce
from ottla.sasl.scram_server import Account, ScramServer

SALT = b"salt of a delegation token"


def scram(algorithm: Algorithm, at: OfferedAt, means: Means) -> Begin:
    """Return SCRAM with the users in the registry. No settings are needed."""
    lookup, nobody = partial(_account, algorithm, means), partial(means.credentials.of_nobody, algorithm=algorithm)
    return lambda: ScramServer(algorithm, lookup, nonce(means.random_bytes), nobody)


def _account(algorithm: Algorithm, means: Means, name: str, is_token: bool) -> Account | Callable[[], Account] | None:
    if is_token:
        return _of_token(algorithm, means, name)
    credential = means.credentials.find(name, algorithm)
    return None if credential is None else Account(name, credential)


def _of_token(algorithm: Algorithm, means: Means, token_id: str) -> Account | Callable[[], Account] | None:
    """Return the account of a delegation token's owner. Return a function that computes it if the credential is not cached."""
    login = means.tokens.login(token_id)
    if login is None:
        return None
    name, kept = login.owner.removeprefix(USER), means.tokens.credentials
    found = kept.get((token_id, algorithm.name))
    if found is not None:
        return Account(name, found, login.expiry_ms, by_token=True)

    def made() -> Account:
        salt = letters(algorithm.hmac(login.password.encode(), SALT)[:NONCE_BYTES]).encode()
        salted = algorithm.salted(login.password, salt, LEAST_ITERATIONS)
        credential = kept[token_id, algorithm.name] = credential_of(algorithm, salted, salt, LEAST_ITERATIONS)
        return Account(name, credential, login.expiry_ms, by_token=True)

    return made
