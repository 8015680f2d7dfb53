"""SCRAM (RFC 5802, RFC 7677; KIP-84): the computations and the message format that both sides share.

Passwords are used as their UTF-8 bytes, as in all of Kafka's clients. `saslprep` finds passwords that other clients encode
differently.
"""

from __future__ import annotations

import binascii
from base64 import b64decode, b64encode
from collections.abc import Callable
from dataclasses import dataclass, field
from string import ascii_letters, ascii_lowercase, digits
from typing import Final

HEADER = "n,,"
"""The GS2 header of a client's first message: no channel binding and no authorization id."""
NONCE_LETTERS: Final = digits + ascii_lowercase
NONCE_BYTES: Final = 17
PRINTABLE: Final = frozenset(map(chr, range(0x21, 0x7F))) - {","}


@dataclass(frozen=True, slots=True)
class Algorithm:
    """One of Kafka's two SCRAM mechanisms.

    `number` is the mechanism's number in requests (KIP-554). `hash_name` is the name of its hash function in hashlib.
    """

    name: str
    number: int
    hash_name: str
    size: int

    def hmac(self, key: bytes, data: bytes) -> bytes:
        import hmac  # here, as hashlib below: it loads OpenSSL, which brokers without SCRAM users need not

        return hmac.digest(key, data, self.hash_name)

    def hash(self, data: bytes) -> bytes:
        import hashlib

        return hashlib.new(self.hash_name, data).digest()

    def salt_password(self, password: str, salt: bytes, iterations: int) -> bytes:
        """Return the salted password (PBKDF2). The computation takes some milliseconds, which slows down guessing."""
        import hashlib

        return hashlib.pbkdf2_hmac(self.hash_name, password.encode(), salt, iterations)


SHA_256: Final = Algorithm("SCRAM-SHA-256", 1, "sha256", 32)
SHA_512: Final = Algorithm("SCRAM-SHA-512", 2, "sha512", 64)
ALGORITHMS: Final = {algorithm.name: algorithm for algorithm in (SHA_256, SHA_512)}
LEAST_ITERATIONS: Final = 4096


@dataclass(frozen=True, slots=True)
class Credential:
    """The stored form of a password. It is enough to verify a login, but not to log in. No `repr` shows a secret."""

    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int


def credential_of(algorithm: Algorithm, salted: bytes, salt: bytes, iterations: int) -> Credential:
    """Return the stored form of a salted password."""
    client_key = algorithm.hmac(salted, b"Client Key")
    return Credential(salt, algorithm.hash(client_key), algorithm.hmac(salted, b"Server Key"), iterations)


def xor(one: bytes, other: bytes) -> bytes:
    return (int.from_bytes(one, "big") ^ int.from_bytes(other, "big")).to_bytes(len(one), "big")


def nonce(random_bytes: Callable[[int], bytes]) -> str:
    """Return 26 letters and digits, from 136 random bits."""
    return letters(random_bytes(NONCE_BYTES))


def letters(data: bytes) -> str:
    """Return the bytes as a number in base 36. Inputs of one size give outputs of one length."""
    number, text = int.from_bytes(data, "big"), ""
    for _ in range(len(data) * 26 // NONCE_BYTES):
        number, digit = divmod(number, len(NONCE_LETTERS))
        text += NONCE_LETTERS[digit]
    return text


class NotScram(ValueError):
    """A message is not valid SCRAM. The text says what is wrong, without any bytes of the message."""


def attributes(message: str) -> list[tuple[str, str]]:
    """Split a message into (key, value) pairs. Raises `NotScram`."""
    pairs = []
    for part in message.split(","):
        key, equals, value = part.partition("=")
        if not equals or not key or not set(key) <= set(ascii_letters) or "\0" in value:
            raise NotScram("an attribute is not a letter, an equals sign and a value")
        pairs.append((key, value))
    return pairs


def expect(pairs: list[tuple[str, str]], *keys: str) -> list[str]:
    """Return the values of the first attributes. Raises `NotScram` unless their keys are `keys`, in this order."""
    if [key for key, _ in pairs[: len(keys)]] != list(keys):
        raise NotScram(f"its attributes are not {', '.join(keys)}")
    return [value for _, value in pairs[: len(keys)]]


def text_of(data: bytes) -> str:
    """Decode a message as UTF-8. Raises `NotScram`."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise NotScram("it is not UTF-8") from None


def checked_nonce(value: str) -> str:
    if not value or not set(value) <= PRINTABLE:
        raise NotScram("its nonce is not printable")
    return value


def decode(value: str) -> bytes:
    """Decode Base64. Raises `NotScram`."""
    try:
        return b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise NotScram("it has bytes that are not Base64") from None


def encode(data: bytes) -> str:
    return b64encode(data).decode()


def escape(name: str) -> str:
    """Return a user's name escaped for a message."""
    return name.replace("=", "=3D").replace(",", "=2C")


def unescape(name: str) -> str:
    """Return the user's name that is escaped in a message. Raises `NotScram`."""
    if not name or "=" in name.replace("=2C", "").replace("=3D", ""):
        raise NotScram("its name is empty, or has an equals sign that is none of =2C and =3D")
    return name.replace("=2C", ",").replace("=3D", "=")
