"""SCRAM (RFC 5802, RFC 7677; KIP-84): what both sides of it reckon, and how its messages are written.

Passwords are taken as their UTF-8 bytes, as all of Kafka's clients do: `saslprep` tells which of them are the same to everybody.
"""

from __future__ import annotations

import binascii
import hashlib
import hmac
from base64 import b64decode, b64encode
from collections.abc import Callable
from dataclasses import dataclass, field
from string import ascii_letters, ascii_lowercase, digits
from typing import Final

HEADER = "n,,"
"""The start of a client's first message: no channel binding, and nobody to act as."""
NONCE_LETTERS: Final = digits + ascii_lowercase
NONCE_BYTES: Final = 17
PRINTABLE: Final = frozenset(map(chr, range(0x21, 0x7F))) - {","}


@dataclass(frozen=True, slots=True)
class Algorithm:
    """One of Kafka's two kinds of SCRAM. `number` is the one on the wire (KIP-554), `hash_name` that of hashlib."""

    name: str
    number: int
    hash_name: str
    size: int

    def hmac(self, key: bytes, data: bytes) -> bytes:
        return hmac.digest(key, data, self.hash_name)

    def hash(self, data: bytes) -> bytes:
        return hashlib.new(self.hash_name, data).digest()

    def salted(self, password: str, salt: bytes, iterations: int) -> bytes:
        """The password made slow to guess: some milliseconds of work."""
        return hashlib.pbkdf2_hmac(self.hash_name, password.encode(), salt, iterations)


SHA_256: Final = Algorithm("SCRAM-SHA-256", 1, "sha256", 32)
SHA_512: Final = Algorithm("SCRAM-SHA-512", 2, "sha512", 64)
ALGORITHMS: Final = {algorithm.name: algorithm for algorithm in (SHA_256, SHA_512)}
LEAST_ITERATIONS: Final = 4096


@dataclass(frozen=True, slots=True)
class Credential:
    """What a server keeps of a password: enough to check one, not enough to log in with. No `repr` shows a secret."""

    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int


def credential_of(algorithm: Algorithm, salted: bytes, salt: bytes, iterations: int) -> Credential:
    """Return what to keep of a salted password."""
    client_key = algorithm.hmac(salted, b"Client Key")
    return Credential(salt, algorithm.hash(client_key), algorithm.hmac(salted, b"Server Key"), iterations)


def xor(one: bytes, other: bytes) -> bytes:
    return (int.from_bytes(one, "big") ^ int.from_bytes(other, "big")).to_bytes(len(one), "big")


def nonce(random_bytes: Callable[[int], bytes]) -> str:
    """Return 26 letters and digits, from 136 random bits."""
    return letters(random_bytes(NONCE_BYTES))


def letters(data: bytes) -> str:
    """Write bytes as a number to the base of 36, as long for all of one size."""
    number, text = int.from_bytes(data, "big"), ""
    for _ in range(len(data) * 26 // NONCE_BYTES):
        number, digit = divmod(number, len(NONCE_LETTERS))
        text += NONCE_LETTERS[digit]
    return text


class NotScram(ValueError):
    """A message is none of SCRAM's: what is wrong with it, without any of its bytes."""


def attributes(message: str) -> list[tuple[str, str]]:
    """Split a message into its attributes. Raises `NotScram`."""
    pairs = []
    for part in message.split(","):
        key, equals, value = part.partition("=")
        if not equals or not key or not set(key) <= set(ascii_letters) or "\0" in value:
            raise NotScram("an attribute is not a letter, an equals sign and a value")
        pairs.append((key, value))
    return pairs


def expect(pairs: list[tuple[str, str]], *keys: str) -> list[str]:
    """Return the values of the first attributes, which must be these, in this order. Raises `NotScram`."""
    if [key for key, _ in pairs[: len(keys)]] != list(keys):
        raise NotScram(f"its attributes are not {', '.join(keys)}")
    return [value for _, value in pairs[: len(keys)]]


def text_of(data: bytes) -> str:
    """Return a message's text. Raises `NotScram`."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise NotScram("it is no UTF-8") from None


def checked_nonce(value: str) -> str:
    if not value or not set(value) <= PRINTABLE:
        raise NotScram("its nonce is not printable")
    return value


def decoded(value: str) -> bytes:
    """Return the bytes of Base64. Raises `NotScram`."""
    try:
        return b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise NotScram("it has bytes that are no Base64") from None


def encoded(data: bytes) -> str:
    return b64encode(data).decode()


def escaped(name: str) -> str:
    """Return a user's name as it stands in a message."""
    return name.replace("=", "=3D").replace(",", "=2C")


def unescaped(name: str) -> str:
    """Return the name that stands in a message. Raises `NotScram`."""
    if not name or "=" in name.replace("=2C", "").replace("=3D", ""):
        raise NotScram("its name is empty, or has an equals sign that is none of =2C and =3D")
    return name.replace("=2C", ",").replace("=3D", "=")
