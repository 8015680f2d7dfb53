"""The client's side of SCRAM (RFC 5802; KIP-84). The client proves that it has the password, the server its stored form of it."""

from __future__ import annotations

import hmac

from ottla.sasl.mechanism import SaslFailed
from ottla.sasl.scram import (
    HEADER,
    LEAST_ITERATIONS,
    Algorithm,
    NotScram,
    attributes,
    credential_of,
    decode,
    encode,
    escape,
    expect,
    text_of,
    xor,
)

MOST_ITERATIONS = 1_000_000
"""The maximum number of iterations that a server may require. A higher number would only keep the client busy."""
UNTRUSTED = "The server did not prove that it has this password: check which server is at this address before you trust it."


class ScramClient:
    """The client's side of one login. `client_nonce` comes from `nonce`.

    With `token`, username and password are the id and the HMAC of a delegation token (KIP-48).
    """

    def __init__(self, algorithm: Algorithm, username: str, password: str, client_nonce: str, *, token: bool = False) -> None:
        if not username or not password:
            raise SaslFailed(f"{algorithm.name} needs a name and a password: set sasl_username and sasl_password.")
        self._algorithm = algorithm
        self._password = password
        self._nonce = client_nonce
        self._bare = f"n={escape(username)},r={self._nonce}" + (",tokenauth=true" if token else "")
        self._signature: bytes | None = None
        self._began = False

    def step(self, challenge: bytes) -> bytes | None:
        if not self._began:
            self._began = True
            return (HEADER + self._bare).encode()
        try:
            message = text_of(challenge)
            if self._signature is None:
                return self._final(message).encode()
            self._verify(message)
        except NotScram as unreadable:
            sentence = f"The server's {self._algorithm.name} message cannot be decoded ({unreadable}): "
            sentence += "check which server is at this address."
            raise SaslFailed(sentence) from None
        return None

    def _final(self, message: str) -> str:
        together, salt, count = expect(attributes(message), "r", "s", "i")
        if not together.startswith(self._nonce) or together == self._nonce:
            raise SaslFailed(UNTRUSTED)
        iterations = int(count) if count.isdecimal() and len(count) < 10 else 0
        if not LEAST_ITERATIONS <= iterations <= MOST_ITERATIONS:
            raise SaslFailed(
                f"The server asks for {count[:20]} iterations, outside {LEAST_ITERATIONS} to {MOST_ITERATIONS}: "
                "set the password on the server again."
            )
        algorithm, raw = self._algorithm, decode(salt)
        salted = algorithm.salt_password(self._password, raw, iterations)
        credential = credential_of(algorithm, salted, raw, iterations)
        without_proof = f"c={encode(HEADER.encode())},r={together}"
        said = f"{self._bare},{message},{without_proof}".encode()
        proof = xor(algorithm.hmac(salted, b"Client Key"), algorithm.hmac(credential.stored_key, said))
        self._signature = algorithm.hmac(credential.server_key, said)
        return f"{without_proof},p={encode(proof)}"

    def _verify(self, message: str) -> None:
        (key, value), *_ = attributes(message)
        if key == "e":
            raise SaslFailed(f"The server refused the login ({value[:80]}): check name and password.")
        assert self._signature is not None, "it was reckoned with the proof"
        if key != "v" or not hmac.compare_digest(decode(value), self._signature):
            raise SaslFailed(UNTRUSTED)
