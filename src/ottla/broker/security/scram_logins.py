"""SCRAM as a listener offers it: users of the registry, and delegation tokens (KIP-84, KIP-48)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ottla.broker.security.offers import Begin, Means, OfferedAt
from ottla.cluster.tokens import USER
from ottla.sasl.scram import LEAST_ITERATIONS, NONCE_BYTES, Algorithm, Credential, credential_of, letters, nonce
from ottla.sasl.scram_server import Account, ScramServer, credential_of_nobody

SECRET_BYTES = 32
SALT = b"salt of a delegation token"


def scram(algorithm: Algorithm, at: OfferedAt, means: Means) -> Begin:
    """Users are those of the registry; there is nothing to set."""
    secret = means.random_bytes(SECRET_BYTES)
    lookup, nobody = partial(_account, algorithm, means), partial(_nobody, algorithm, means, secret)
    return lambda: ScramServer(algorithm, lookup, nonce(means.random_bytes), nobody)


def _nobody(algorithm: Algorithm, means: Means, secret: bytes, name: str) -> Credential:
    """Return a credential for an unknown name that all brokers and listeners return, also after a restart.

    Otherwise a salt that differs between two of them would show that there is no such user. The one secret that all of them have
    is a credential; where there is none, nobody exists who could be told apart.
    """
    like = means.credentials.first(algorithm)
    return credential_of_nobody(algorithm, secret if like is None else like.server_key, name, like)


def _account(algorithm: Algorithm, means: Means, name: str, is_token: bool) -> Account | Callable[[], Account] | None:
    if is_token:
        return _of_token(algorithm, means, name)
    credential = means.credentials.find(name, algorithm)
    return None if credential is None else Account(name, credential)


def _of_token(algorithm: Algorithm, means: Means, token_id: str) -> Account | Callable[[], Account] | None:
    """The owner of a token, whose credential is made of what proves it when it is asked for first."""
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
