"""Credentials that no password matches, for users that do not exist: they look like real ones, so that logins show no names."""

from __future__ import annotations

from typing import Final, NamedTuple

from ottla.sasl.scram import LEAST_ITERATIONS, Algorithm, Credential, letters


class Likeness(NamedTuple):
    """The properties of a credential that clients see: its iterations, and the length and the characters of its salt."""

    iterations: int
    salt_bytes: int
    is_text: bool


USUAL: Final = Likeness(LEAST_ITERATIONS, 26, is_text=True)
"""The properties of a credential that Kafka's tools create."""


def likeness_of(credential: Credential) -> Likeness:
    """Return the properties of a credential that clients see."""
    return Likeness(credential.iterations, len(credential.salt), credential.salt.isalnum())


def dummy_credential(algorithm: Algorithm, secret: bytes, name: str, like: Likeness = USUAL) -> Credential:
    """Return a credential that no password matches, with a salt and iterations like the ones of a real credential.

    The salt is derived from `secret` and the name, so that it changes only with the secret.
    """
    import hmac
    from hashlib import shake_256

    seed = hmac.digest(secret, f"{algorithm.name},{name}".encode(), "sha512")
    drawn = shake_256(seed).digest(like.salt_bytes)
    salt = letters(drawn).encode()[: like.salt_bytes] if like.is_text else drawn
    return Credential(salt, bytes(algorithm.size), bytes(algorithm.size), like.iterations)
