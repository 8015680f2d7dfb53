"""The server's side of SCRAM (RFC 5802; KIP-84, and KIP-48 for delegation tokens).

A login as a user that does not exist goes through the whole exchange, and is refused at its end. Each name keeps its salt, so that
clients cannot find out which users exist.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ottla.sasl.mechanism import Authenticated, Challenge, Computed, Rejected, Step
from ottla.sasl.scram import (
    Algorithm,
    Credential,
    NotScram,
    attributes,
    checked_nonce,
    decode,
    encode,
    expect,
    text_of,
    unescape,
    xor,
)

TOKEN: str = "tokenauth"
"""The SCRAM extension of a client that logs in with a delegation token."""


@dataclass(frozen=True, slots=True)
class Account:
    """A user with a credential. `name` is the user's name. The client logs in with it, or with a delegation token's id."""

    name: str
    credential: Credential
    expires_ms: int | None = None
    by_token: bool = False


Lookup = Callable[[str, bool], Account | Callable[[], Account] | None]
"""Finds an account: by name, or with the flag by a delegation token's id. A slow lookup returns a callable for another thread."""


class ScramServer:
    """The server's side of one login. `server_nonce` comes from `nonce`.

    A client may repeat its own nonce before the combined nonce in its answer, as librdkafka before 2.6.1 does. That is safe,
    because the proof covers the server's challenge, and matches no other challenge.

    `nobody` returns a credential that no password matches, for a name that does not exist. It must return the same one in every
    exchange.
    """

    def __init__(self, algorithm: Algorithm, lookup: Lookup, server_nonce: str, nobody: Callable[[str], Credential]) -> None:
        self._algorithm = algorithm
        self._lookup = lookup
        self._nonce = server_nonce
        self._repeated = ""
        self._nobody = nobody
        self._account: Account | None = None
        self._credential: Credential | None = None
        self._header = ""
        self._said = ""

    def step(self, data: bytes, wall_ms: int) -> Step:
        try:
            return self._first(text_of(data)) if self._credential is None else self._final(text_of(data), wall_ms)
        except NotScram as unreadable:
            return Rejected(f"its {self._algorithm.name} message cannot be decoded: {unreadable}")

    def _first(self, message: str) -> Step:
        binding, _, rest = message.partition(",")
        acts_as, comma, bare = rest.partition(",")
        if binding != "n" or not comma or (acts_as and not acts_as.startswith("a=")):
            raise NotScram("it requires channel binding, which is not supported, or has no GS2 header")
        pairs = attributes(bare)
        name, client_nonce = expect(pairs, "n", "r")
        username = unescape(name)
        if acts_as and unescape(acts_as[2:]) != username:
            return Rejected("its authorization id is not its user", "The authorization id is not the user's name: leave it empty.")
        self._header = f"{binding},{acts_as},"
        self._nonce = checked_nonce(client_nonce) + self._nonce
        self._repeated = client_nonce + self._nonce
        found = self._lookup(username, (TOKEN, "true") in [(key, value.lower()) for key, value in pairs[2:]])
        if found is None or isinstance(found, Account):
            return self._challenge(bare, username, found)
        return Computed(lambda: self._challenge(bare, username, found()))

    def _challenge(self, bare: str, username: str, account: Account | None) -> Challenge:
        self._account = account
        self._credential = self._nobody(username) if account is None else account.credential
        told = f"r={self._nonce},s={encode(self._credential.salt)},i={self._credential.iterations}"
        self._said = f"{bare},{told}"
        return Challenge(told.encode())

    def _final(self, message: str, wall_ms: int) -> Step:
        without_proof, _, last = message.rpartition(",")
        pairs = attributes(without_proof)
        (proof,) = expect(attributes(last), "p")
        header, answered = expect(pairs, "c", "r")
        from hmac import compare_digest

        algorithm, account, credential = self._algorithm, self._account, self._credential
        assert credential is not None, "there was a challenge"
        if not compare_digest(decode(header), self._header.encode()):
            return Rejected("its channel binding is not that of its first message")
        if answered not in (self._nonce, self._repeated):
            return Rejected("its nonce is not the one in the challenge")
        given = decode(proof)
        if len(given) != algorithm.size:
            raise NotScram(f"its proof has {len(given)} bytes")
        said = f"{self._said},{without_proof}".encode()
        stored = algorithm.hash(xor(given, algorithm.hmac(credential.stored_key, said)))
        fits = compare_digest(stored, credential.stored_key)
        signature = algorithm.hmac(credential.server_key, said)
        if not fits or account is None:
            return Rejected("the name or the password is wrong")
        if account.expires_ms is not None and account.expires_ms <= wall_ms:
            return Rejected("its delegation token has expired")
        return Authenticated(account.name, f"v={encode(signature)}".encode(), account.expires_ms, by_token=account.by_token)
