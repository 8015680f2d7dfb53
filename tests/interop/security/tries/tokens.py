"""Tries to log in by signed tokens (OAUTHBEARER) that nobody who counts has signed, or that say what they may not."""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator
from typing import Any

from tests.interop.security.tries.row import Step, Try, entering
from tests.support.fort import Fort, Line

ISSUER = "https://idp.example"
Made = Callable[[Fort], str]


def claims(**more: Any) -> dict[str, Any]:
    now = int(time.time())
    said = {"sub": "alice", "iat": now, "exp": now + 600, "aud": "ottla", "iss": ISSUER, **more}
    return {name: value for name, value in said.items() if value is not None}


def written(header: dict[str, Any], said: dict[str, Any], signature: bytes = b"") -> str:
    parts = [json.dumps(header).encode(), json.dumps(said).encode(), signature]
    return ".".join(urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)


def signed(
    key: Any = None, algorithm: str = "RS256", kid: str | None = "one", more: dict[str, Any] | None = None, **said: Any
) -> Made:
    """By the fort's own key, unless another is given."""

    def made(fort: Fort) -> str:
        import jwt

        headers = {**({} if kid is None else {"kid": kid}), **(more or {})}
        token: str = jwt.encode(claims(**said), fort.jwt_key if key is None else key, algorithm, headers=headers)
        return token

    return made


def by_stranger(algorithm: str = "RS256", kid: str | None = "one", **more: Any) -> Made:
    def made(fort: Fort) -> str:
        from cryptography.hazmat.primitives.asymmetric import ec, rsa

        key = rsa.generate_private_key(65537, 2048) if algorithm[0] in "RP" else ec.generate_private_key(ec.SECP256R1())
        return signed(key, algorithm, kid, more)(fort)

    return made


def _public(fort: Fort) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    found: bytes = fort.jwt_key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return found


def with_secret(secret: Callable[[Fort], bytes], algorithm: str = "HS256") -> Made:
    """Signed by a secret that everybody knows."""

    def made(fort: Fort) -> str:
        token = written({"alg": algorithm, "typ": "JWT", "kid": "one"}, claims())
        head = token.rstrip(".")
        proof = hmac.digest(secret(fort), head.encode(), getattr(hashlib, f"sha{algorithm[2:]}"))
        return f"{head}.{urlsafe_b64encode(proof).rstrip(b'=').decode()}"

    return made


def changed(change: Callable[[list[str]], list[str]]) -> Made:
    """A good token of mallory, in which something was changed afterwards."""
    return lambda fort: ".".join(change(signed(sub="mallory")(fort).split(".")))


def _claim(parts: list[str]) -> list[str]:
    return [parts[0], written({}, claims()).split(".")[1], parts[2]]


def _head(**said: Any) -> Callable[[list[str]], list[str]]:
    return lambda parts: [written(said, {}).split(".")[0], *parts[1:]]


NOW = int(time.time())
TOKENS: dict[str, Made] = {
    "signed by another key": by_stranger(),
    "signed by another key that is named otherwise": by_stranger(kid="two"),
    "signed by another key without a name": by_stranger(kid=None),
    "signed by another key of another kind": by_stranger("ES256"),
    "signed by another key that comes with it": by_stranger(jwk={"kty": "oct", "k": "AAAA"}),
    "signed by another key whose place comes with it": by_stranger(jku="http://127.0.0.1:1/keys"),
    "signed by another key whose certificate comes with it": by_stranger(x5u="http://127.0.0.1:1/cert"),
    "signed by a key whose name is a path": by_stranger(kid="../../../../dev/null"),
    "not signed": lambda fort: written({"alg": "none"}, claims()),
    "not signed, in capitals": lambda fort: written({"alg": "NONE"}, claims()),
    "not signed, in mixed letters": lambda fort: written({"alg": "nOnE", "kid": "one"}, claims()),
    "not signed, though it says so": lambda fort: written({"alg": "RS256", "kid": "one"}, claims()),
    "without an algorithm": lambda fort: written({"kid": "one"}, claims()),
    "an algorithm that is no text": lambda fort: written({"alg": ["RS256"], "kid": "one"}, claims()),
    "an algorithm that nobody knows": lambda fort: written({"alg": "RS257", "kid": "one"}, claims(), b"x"),
    "the public key as a secret": with_secret(_public),
    "the public key as a secret of SHA-512": with_secret(_public, "HS512"),
    "an empty secret": with_secret(lambda fort: b""),
    "the key's name as a secret": with_secret(lambda fort: b"one"),
    "other claims under the same signature": changed(_claim),
    "no algorithm under the same signature": changed(_head(alg="none", kid="one")),
    "another algorithm under the same signature": changed(_head(alg="RS512", kid="one")),
    "another padding under the same signature": changed(_head(alg="PS256", kid="one")),
    "without its signature": changed(lambda parts: [*parts[:2], ""]),
    "half of its signature": changed(lambda parts: [*parts[:2], parts[2][:100]]),
    "two parts": changed(lambda parts: parts[:2]),
    "four parts": changed(lambda parts: [*parts, parts[2]]),
    "five parts, as if it were a secret": changed(lambda parts: [*parts, parts[1], parts[2]]),
    "over": signed(exp=NOW - 100),
    "over before it began": signed(exp=NOW - 10, iat=NOW),
    "without an end": signed(exp=None),
    "an end that is a text": signed(exp="never"),
    "an end below 0": lambda fort: signed(exp=-1)(fort),
    "without a time of issue": signed(iat=None),
    "made tomorrow": signed(iat=NOW + 86_400, exp=NOW + 90_000),
    "not valid yet": signed(nbf=NOW + 86_400, exp=NOW + 90_000),
    "for another audience": signed(aud="others"),
    "for an audience in capitals": signed(aud="OTTLA"),
    "for many audiences, none of them this": signed(aud=["a", "b"]),
    "for no audience": signed(aud=None),
    "of another issuer": signed(iss="https://evil.example"),
    "of an issuer with more behind": signed(iss=f"{ISSUER}/"),
    "of no issuer": signed(iss=None),
    "for nobody": signed(sub=None),
    "for an empty user": signed(sub=""),
    "for a blank": signed(sub="  "),
    "an extension of the header that must be understood": signed(more={"crit": ["exp"]}),
}
SAID: dict[str, bytes] = {
    "no token": b"n,,\x01auth=Bearer \x01\x01",
    "no authorization": b"n,,\x01\x01",
    "another scheme": b"n,,\x01auth=Basic YWxpY2U6eA==\x01\x01",
    "channel binding": b"p=tls-unique,,\x01auth=Bearer x\x01\x01",
    "an end that is missing": b"n,,\x01auth=Bearer x\x01",
    "two tokens": b"n,,\x01auth=Bearer x\x01auth=Bearer y\x01\x01",
    "nothing": b"",
    "a message of PLAIN": b"\0alice\0alice",
    "bytes that are no UTF-8": b"n,,\x01auth=Bearer \xff\x01\x01",
}


def shown(made: Made, acts_as: str = "") -> Step:
    def step(fort: Fort, line: Line) -> None:
        line.handshake("OAUTHBEARER")
        if line.token(f"n,{acts_as},\x01auth=Bearer {made(fort)}\x01\x01".encode()):
            line.token(b"\x01")

    return step


def _said(data: bytes) -> Step:
    def step(fort: Fort, line: Line) -> None:
        line.handshake("OAUTHBEARER")
        line.token(data)

    return step


def bearer_tries() -> Iterator[Try]:
    for name, made in TOKENS.items():
        yield Try("OAUTHBEARER", name, entering(shown(made), listener="BEARER"), "0 0 58 closed")
    for name, data in SAID.items():
        yield Try("OAUTHBEARER", name, entering(_said(data), listener="BEARER"), "0 58 closed")
    acting = shown(signed(sub="mallory"), "a=alice")
    yield Try("OAUTHBEARER", "mallory's, to act as alice", entering(acting, listener="BEARER"), "0 58 closed")


def right_tokens() -> Iterator[Try]:
    """The fort's own key lets alice in."""
    yield Try("right", "a signed token", entering(shown(signed()), listener="BEARER"), "0 0 in")
    yield Try(
        "right", "a signed token for many audiences", entering(shown(signed(aud=["x", "ottla"])), listener="BEARER"), "0 0 in"
    )
