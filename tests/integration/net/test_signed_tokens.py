"""Tokens that somebody has signed, and the keys that count: of files that change, and of a web server that is not always there."""

from __future__ import annotations

import hashlib
import hmac
import os
import threading
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from json import dumps, loads
from pathlib import Path
from typing import Any

import pytest

from ottla.errors import SettingError
from ottla.net.security.jwks import FetchTimes, JwksFile, JwksUrl, local_path, parse_keys
from ottla.net.security.jwt_tokens import SignedTokens
from ottla.sasl.bearer import BearerRules
from ottla.sasl.oauthbearer import BadToken, BearerToken
from tests.support.waiting import eventually

jwt = pytest.importorskip("jwt")
rsa = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.rsa")
ec = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.ec")
ed25519 = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.ed25519")

NOW_S = 1_700_000_000
CLAIMS = {"sub": "alice", "iat": NOW_S, "exp": NOW_S + 60}
RSA_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER_RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
EC_KEY = ec.generate_private_key(ec.SECP256R1())
ED_KEY = ed25519.Ed25519PrivateKey.generate()


def jwk(key: Any, **fields: str) -> dict[str, Any]:
    """A key as a set has it: the public part."""
    kind = {"R": "RS256", "E": "ES256"}.get(type(key).__name__.removeprefix("_")[0], "RS256")
    algorithm = "EdDSA" if key is ED_KEY else kind
    made = jwt.get_algorithm_by_name(algorithm).to_jwk(key.public_key())
    return {**loads(made), **fields}


def key_set(*keys: dict[str, Any]) -> bytes:
    return dumps({"keys": list(keys)}).encode()


KEYS = key_set(jwk(RSA_KEY, kid="r"), jwk(EC_KEY, kid="e"), jwk(ED_KEY, kid="d"))


def part(value: object) -> str:
    return urlsafe_b64encode(dumps(value).encode()).decode().rstrip("=")


def signed(key: Any = RSA_KEY, algorithm: str = "RS256", key_id: str | None = "r", **claims: Any) -> str:
    made: str = jwt.encode({**CLAIMS, **claims}, key, algorithm, headers={} if key_id is None else {"kid": key_id})
    return made


@pytest.fixture
def keys_path(tmp_path: Path) -> Path:
    path = tmp_path / "keys.json"
    path.write_bytes(KEYS)
    return path


@pytest.fixture
def judge(keys_path: Path) -> Callable[[str], BearerToken | BadToken]:
    tokens = SignedTokens(BearerRules(), JwksFile(str(keys_path)))
    return lambda token: tokens.validate(token, NOW_S * 1000)


@pytest.mark.parametrize(
    ("key", "algorithm", "key_id"),
    [
        (RSA_KEY, "RS256", "r"),
        (RSA_KEY, "PS512", "r"),
        (RSA_KEY, "RS384", None),
        (EC_KEY, "ES256", "e"),
        (ED_KEY, "EdDSA", "d"),
    ],
)
def test_a_token_signed_by_a_known_key_is_good(
    judge: Callable[[str], BearerToken | BadToken], key: Any, algorithm: str, key_id: str | None
) -> None:
    assert judge(signed(key, algorithm, key_id)) == BearerToken("alice", (NOW_S + 60) * 1000)


def with_secret(secret: bytes) -> str:
    """A token under HS256, with what is public for a secret."""
    said = f"{part({'alg': 'HS256', 'kid': 'r'})}.{part(CLAIMS)}"
    mac = hmac.digest(secret, said.encode(), hashlib.sha256)
    return f"{said}.{urlsafe_b64encode(mac).decode().rstrip('=')}"


def public_pem() -> bytes:
    serialization = pytest.importorskip("cryptography.hazmat.primitives.serialization")
    pem: bytes = RSA_KEY.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    return pem


GOOD = signed()
HEAD, BODY, SIGNATURE = GOOD.split(".")
FORGED = {
    "signed by another key": signed(OTHER_RSA),
    "signed by another key of the same id": signed(OTHER_RSA, key_id="r"),
    "an unknown key": signed(OTHER_RSA, key_id="x"),
    "no signature": f"{part({'alg': 'none'})}.{BODY}.",
    "no signature, in other letters": f"{part({'alg': 'NoNe', 'kid': 'r'})}.{BODY}.",
    "none, with a signature": f"{part({'alg': 'none', 'kid': 'r'})}.{BODY}.{SIGNATURE}",
    "the signature left out": f"{HEAD}.{BODY}.",
    "the signature of other claims": f"{HEAD}.{part({**CLAIMS, 'sub': 'root'})}.{SIGNATURE}",
    "another algorithm for the same key": f"{part({'alg': 'RS512', 'kid': 'r'})}.{BODY}.{SIGNATURE}",
    "the public key as a secret": with_secret(public_pem()),
    "the public key without its last line end as a secret": with_secret(public_pem().rstrip()),
    "the modulus as a secret": with_secret(jwk(RSA_KEY)["n"].encode()),
    "an empty secret": with_secret(b""),
    "a key of another kind": signed(EC_KEY, "ES256", "r"),
    "a key that comes with the token": jwt.encode(CLAIMS, OTHER_RSA, "RS256", headers={"jwk": jwk(OTHER_RSA)}),
    "a key that the token points to": jwt.encode(CLAIMS, OTHER_RSA, "RS256", headers={"jku": "http://127.0.0.1/keys", "kid": "x"}),
    "a certificate that comes with the token": jwt.encode(CLAIMS, OTHER_RSA, "RS256", headers={"x5c": ["AAAA"]}),
    "a header that asks for extensions": jwt.encode(CLAIMS, RSA_KEY, "RS256", headers={"kid": "r", "crit": ["x"], "x": 1}),
    "an id that is no text": f"{part({'alg': 'RS256', 'kid': ['r']})}.{BODY}.{SIGNATURE}",
    "an algorithm that is no text": f"{part({'alg': ['RS256'], 'kid': 'r'})}.{BODY}.{SIGNATURE}",
    "a signature of zeros": f"{part({'alg': 'ES256', 'kid': 'e'})}.{BODY}.{urlsafe_b64encode(bytes(64)).decode().rstrip('=')}",
    "expired": signed(exp=NOW_S - 31),
    "five parts": f"{GOOD}.a.b",
    "nothing": "",
}


@pytest.mark.parametrize("forged", FORGED)
def test_nothing_else_is(judge: Callable[[str], BearerToken | BadToken], forged: str) -> None:
    refused = judge(FORGED[forged])
    assert isinstance(refused, BadToken)
    assert SIGNATURE not in refused.cause
    assert isinstance(judge(GOOD), BearerToken), "and the good one still is"


def test_keys_that_could_be_secrets_or_are_weak_or_for_something_else_are_left_out() -> None:
    small = rsa.generate_private_key(public_exponent=65537, key_size=1024)
    secret = {"kty": "oct", "k": "c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0", "kid": "s", "alg": "HS256"}
    others = [
        secret,
        jwk(small, kid="small"),
        jwk(RSA_KEY, kid="for secrets", use="enc"),
        {**jwk(RSA_KEY, kid="for signing"), "key_ops": ["sign"]},
        jwk(RSA_KEY, kid="none", alg="none"),
        jwk(RSA_KEY, kid="symmetric", alg="HS256"),
        {"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"},
        {"kty": "RSA"},
        {},
    ]
    (left,) = parse_keys(key_set(*others, jwk(RSA_KEY, kid="one", alg="RS256")), "these")
    assert (left.key_id, left.algorithms) == ("one", frozenset({"RS256"}))
    with pytest.raises(ValueError, match="these has no public key"):
        parse_keys(key_set(*others), "these")


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b'{"keys": 1}', b'{"keys": []}', b"[" * 100_000])
def test_what_is_no_set_of_keys_is_said_to_be_none(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "keys.json"
    path.write_bytes(text)
    with pytest.raises(SettingError, match=r"sasl\.oauthbearer\.jwks\.endpoint\.url: .*keys\.json"):
        JwksFile(str(path))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"none\.json cannot be read"):
        JwksFile(str(tmp_path / "none.json"))


def test_a_file_that_changes_is_read_again_and_one_that_is_broken_leaves_the_old_keys(keys_path: Path) -> None:
    clock = [0.0]
    keys = JwksFile(str(keys_path), monotonic=lambda: clock[0])
    tokens = SignedTokens(BearerRules(), keys)

    def is_good(token: str) -> bool:
        return isinstance(tokens.validate(token, NOW_S * 1000), BearerToken)

    renewed = keys_path.with_suffix(".new")
    renewed.write_bytes(key_set(jwk(OTHER_RSA, kid="o")))
    os.replace(renewed, keys_path)
    assert is_good(GOOD), "it is not looked at all the time"
    clock[0] += 2
    assert not is_good(GOOD)
    assert is_good(signed(OTHER_RSA, key_id="o"))
    keys_path.write_bytes(b"half a fi")
    clock[0] += 2
    assert is_good(signed(OTHER_RSA, key_id="o"))


class Issuer(HTTPServer):
    """A web server with keys. `answer` is (status, body)."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answering)
        self.answer = 200, KEYS
        self.asked = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/keys"


class Answering(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        assert isinstance(self.server, Issuer)
        status, body = self.server.answer
        self.server.asked += 1
        self.send_response(status)
        if status == 302:
            self.send_header("Location", f"{self.server.url}/elsewhere")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing is said."""


@contextmanager
def fetching(answer: tuple[int, bytes] = (200, KEYS), refresh_s: float = 3600) -> Iterator[tuple[Issuer, JwksUrl]]:
    with Issuer() as issuer:
        issuer.answer = answer
        serving = threading.Thread(target=issuer.serve_forever, args=(0.02,))
        serving.start()
        keys = JwksUrl(issuer.url, FetchTimes(refresh_s, backoff_s=0.01, backoff_max_s=0.05, least_s=0.01))
        try:
            yield issuer, keys
        finally:
            keys.close()
            issuer.shutdown()
            serving.join()


def test_keys_of_a_url_are_there_soon_and_a_new_one_is_fetched_when_a_token_names_it() -> None:
    with fetching() as (issuer, keys):
        eventually(lambda: bool(keys.find("r", "RS256")))
        assert keys.find("o", "RS256") == []
        issuer.answer = 200, key_set(jwk(OTHER_RSA, kid="new"))
        eventually(lambda: bool(keys.find("new", "RS256")))
        assert keys.find("r", "RS256") == [], "what the issuer withdrew no longer counts"


@pytest.mark.parametrize("answer", [(500, b""), (200, b"no keys"), (200, b"x" * (2 << 20)), (302, KEYS), (404, KEYS)])
def test_an_issuer_that_is_in_trouble_is_asked_again_and_the_old_keys_stay(answer: tuple[int, bytes]) -> None:
    with fetching(answer) as (issuer, keys):
        eventually(lambda: issuer.asked >= 2)
        assert keys.find("r", "RS256") == []
        issuer.answer = 200, KEYS
        eventually(lambda: bool(keys.find("r", "RS256")))
        issuer.answer = answer
        asked = issuer.asked
        keys.find("unknown", "RS256")
        eventually(lambda: issuer.asked > asked)
        assert keys.find("r", "RS256")


def test_made_up_ids_have_the_keys_fetched_once_each_and_no_more_than_a_few_are_kept() -> None:
    with fetching() as (_, keys):
        eventually(lambda: bool(keys.find("r", "RS256")))
        for number in range(1000):
            keys.find(f"made up {number}", "RS256")
        keys.find("x" * 1_000_000, "RS256")
        assert len(keys._asked_for) <= 16


@pytest.mark.parametrize("url", ["", "keys.json", "ftp://host/keys", "file://host/keys", "file://", "https://", "data:,{}"])
def test_a_url_of_another_kind_is_refused(url: str) -> None:
    with pytest.raises(SettingError, match="write file:///path or https://host/path"):
        local_path("the.setting", url)


def test_a_url_of_a_file_is_its_path() -> None:
    assert local_path("s", "file:///etc/my%20keys.json") == "/etc/my keys.json"
    assert local_path("s", "https://idp.test/keys") is None
