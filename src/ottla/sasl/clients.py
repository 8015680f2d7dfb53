"""The mechanisms for clients with a name and a password, by the values of `sasl.mechanism`."""

from __future__ import annotations

from collections.abc import Callable

from ottla.sasl import plain
from ottla.sasl.mechanism import ClientMechanism, SaslFailed
from ottla.sasl.plain import PlainClient
from ottla.sasl.scram import ALGORITHMS, nonce
from ottla.sasl.scram_client import ScramClient

Random = Callable[[int], bytes]


def client_mechanism(name: str, username: str, password: str, random_bytes: Random, *, token: bool = False) -> ClientMechanism:
    """Return the state machine of one login.

    With `token`, username and password are the id and the HMAC of a delegation token (SCRAM only). Raises `SaslFailed` for a
    mechanism that uses no name and password, and for a name or password that the mechanism cannot send.
    """
    if name == plain.NAME:
        return PlainClient(username, password)
    if name in ALGORITHMS:
        return ScramClient(ALGORITHMS[name], username, password, nonce(random_bytes), token=token)
    *others, last = plain.NAME, *ALGORITHMS
    raise SaslFailed(f"{name} is not a SASL mechanism with a password: choose {', '.join(others)} or {last}.")
