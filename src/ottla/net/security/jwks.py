"""The public keys of token issuers (RFC 7517): read from a file, or fetched from a URL periodically (KIP-768).

`find` never blocks, because keys are fetched on a separate thread. If a fetch fails, the keys of the previous fetch stay valid.
"""

from __future__ import annotations

import logging
import os
import ssl
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPException
from json import loads
from typing import IO, Any, Final, Protocol
from urllib.parse import unquote, urlsplit

from ottla.errors import SettingError

log = logging.getLogger("ottla.broker")

URL_SETTING: Final = "sasl.oauthbearer.jwks.endpoint.url"
LARGEST_BYTES: Final = 1 << 20
"""The largest accepted size of a key set, in bytes."""
LOOK_AGAIN_S: Final = 1.0
UNKNOWN_KEPT: Final = 16
LONGEST_KEY_ID: Final = 1000
ASK_AGAIN_S: Final = 60.0
"""The shortest time, in s, between two fetches that the same unknown key id causes."""
LEAST_RSA_BITS: Final = 2048
RSA: Final = frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"})
BY_CURVE: Final = {"P-256": "ES256", "P-384": "ES384", "P-521": "ES512", "Ed25519": "EdDSA", "Ed448": "EdDSA"}


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A public key, and the algorithms for which it may be used: none that would use it as a shared secret."""

    key_id: str | None
    algorithms: frozenset[str]
    public: Any


class Keys(Protocol):
    """A source of public keys that verify the signatures of tokens."""

    def find(self, key_id: str | None, algorithm: str) -> Sequence[SigningKey]:
        """Return the keys that can have signed a token: those with the id `key_id`, or all keys if the token names none."""

    def close(self) -> None: ...


def parse_keys(text: bytes, where: str) -> tuple[SigningKey, ...]:
    """Return the usable signature keys of a JWK set. Raises `ValueError`, with the reason, if the set has no usable key."""
    try:
        listed = loads(text)["keys"]
        keys = [_signing_key(each) for each in listed if isinstance(each, dict)]
    except (ValueError, LookupError, TypeError, RecursionError):
        raise ValueError(f"{where} is not a JSON Web Key Set") from None
    found = tuple(key for key in keys if key is not None)
    if not found:
        raise ValueError(f"{where} has no public key for signatures (RSA of 2048 bits or more, EC, Ed25519)")
    return found


def _signing_key(jwk: Mapping[str, Any]) -> SigningKey | None:
    from jwt import PyJWK
    from jwt.exceptions import PyJWTError

    kind, key_id = jwk.get("kty"), jwk.get("kid")
    algorithms = RSA if kind == "RSA" else frozenset({BY_CURVE.get(str(jwk.get("crv")), "")} - {""})
    if kind not in ("RSA", "EC", "OKP") or jwk.get("use", "sig") != "sig" or "verify" not in jwk.get("key_ops", ["verify"]):
        return None
    if "alg" in jwk:
        algorithms &= {jwk["alg"]}
    public_parts = {name: value for name, value in jwk.items() if name in ("kty", "n", "e", "crv", "x", "y")}
    try:
        public = PyJWK.from_dict(public_parts).key
    except (PyJWTError, ValueError, TypeError):
        return None
    if not algorithms or (kind == "RSA" and public.key_size < LEAST_RSA_BITS):
        return None
    return SigningKey(key_id if isinstance(key_id, str) else None, algorithms, public)


def _select(keys: Sequence[SigningKey], key_id: str | None, algorithm: str) -> list[SigningKey]:
    return [key for key in keys if algorithm in key.algorithms and (key_id is None or key.key_id in (None, key_id))]


class JwksFile:
    """The public keys of a JWK set in a file, which is read again when it changes. Raises `SettingError` if the first read
    fails.
    """

    def __init__(self, path: str, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._monotonic = monotonic
        self._looked_at = monotonic()
        try:
            self._stamp = self._stamp_now()
            self._keys = self._read()
        except (OSError, ValueError) as failure:
            raise SettingError(
                f"{URL_SETTING}: {reason(failure)}: name a file with the public keys of the token issuers."
            ) from None

    def find(self, key_id: str | None, algorithm: str) -> Sequence[SigningKey]:
        if self._monotonic() - self._looked_at >= LOOK_AGAIN_S:
            self._looked_at = self._monotonic()
            self._reload_if_changed()
        return _select(self._keys, key_id, algorithm)

    def close(self) -> None:
        """Do nothing, because a file needs no closing."""

    def _reload_if_changed(self) -> None:
        try:
            stamp = self._stamp_now()
            if stamp != self._stamp:
                self._stamp, self._keys = stamp, self._read()
                log.info("%s: its %d keys are in force", self._path, len(self._keys))
        except (OSError, ValueError) as failure:
            log.warning("%s: %s; the previous keys stay in force", URL_SETTING, reason(failure))

    def _stamp_now(self) -> tuple[int, int, int]:
        status = os.stat(self._path)
        return status.st_mtime_ns, status.st_size, status.st_ino

    def _read(self) -> tuple[SigningKey, ...]:
        with open(self._path, "rb") as file:
            return parse_keys(file.read(LARGEST_BYTES), self._path)


@dataclass(frozen=True, slots=True)
class FetchTimes:
    """The times of fetches of public keys: the interval, the first and the longest pause after a failure, and the timeout of one
    fetch.

    `least_s` is the shortest time between two fetches that unknown key ids cause, since clients can invent key ids.
    """

    refresh_s: float = 3600
    backoff_s: float = 0.1
    backoff_max_s: float = 10
    timeout_s: float = 10
    least_s: float = 1


class JwksUrl:
    """The public keys of a JWK set at a URL. A thread fetches them periodically, and at once when a token names an unknown key."""

    def __init__(
        self,
        url: str,
        times: FetchTimes,
        trust: ssl.SSLContext | None = None,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._url = url
        self._times = times
        self._trust = trust
        self._monotonic = monotonic
        self._keys: tuple[SigningKey, ...] = ()
        self._asked_for: dict[str, float] = {}
        self._wanted = threading.Event()
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="ottla-jwks", daemon=True)
        self._thread.start()

    def find(self, key_id: str | None, algorithm: str) -> Sequence[SigningKey]:
        found = _select(self._keys, key_id, algorithm)
        if not found and key_id is not None and len(key_id) <= LONGEST_KEY_ID:
            self._request_key(key_id)
        return found

    def close(self) -> None:
        """Stop fetching keys. A fetch in progress is not waited for."""
        self._is_closed = True
        self._wanted.set()

    def _request_key(self, key_id: str) -> None:
        now = self._monotonic()
        if now < self._asked_for.get(key_id, now):
            return
        self._asked_for[key_id] = now + ASK_AGAIN_S
        while len(self._asked_for) > UNKNOWN_KEPT:
            del self._asked_for[next(iter(self._asked_for))]
        self._wanted.set()

    def _run(self) -> None:
        backoff_s = self._times.backoff_s
        while not self._is_closed:
            self._wanted.clear()
            try:
                self._keys = parse_keys(fetch(self._url, self._times.timeout_s, self._trust), self._url)
            except (OSError, ValueError, HTTPException) as failure:
                kept = "the previous keys stay in force" if self._keys else "tokens are refused until then"
                log.warning("%s: %s; the fetch is retried, and %s", URL_SETTING, reason(failure), kept)
                self._rest(backoff_s)
                backoff_s = min(2 * backoff_s, self._times.backoff_max_s)
                continue
            backoff_s = self._times.backoff_s
            log.info("%s: %d keys of %s are in force", URL_SETTING, len(self._keys), self._url)
            self._rest(self._times.least_s)
            self._wanted.wait(self._times.refresh_s)

    def _rest(self, seconds: float) -> None:
        """Wait for `seconds` after a failed fetch, even if a token names an unknown key meanwhile."""
        deadline = time.monotonic() + seconds
        while not self._is_closed and (left := deadline - time.monotonic()) > 0:
            time.sleep(min(left, 0.2))


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A handler that refuses redirects, so that secrets and keys are exchanged only with the configured URL."""

    def redirect_request(self, req: Any, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str) -> None:
        return None


def fetch(
    url: str, timeout_s: float, trust: ssl.SSLContext | None = None, body: bytes | None = None, headers: Mapping[str, str] = {}
) -> bytes:
    """Return the response body of a URL. With `body`, send a POST request instead of a GET request.

    Raises `OSError`, `ValueError` and `HTTPException`.
    """
    opener = urllib.request.build_opener(_NoRedirects, urllib.request.HTTPSHandler(context=trust or ssl.create_default_context()))
    request = urllib.request.Request(url, body, {"Accept": "application/json", **headers})
    try:
        with opener.open(request, timeout=timeout_s) as response:
            answer: bytes = response.read(LARGEST_BYTES + 1)
    except urllib.error.HTTPError as refused:
        refused.close()
        raise
    if len(answer) > LARGEST_BYTES:
        raise ValueError(f"{url} answers with more than {LARGEST_BYTES} bytes")
    return answer


def local_path(setting: str, url: str) -> str | None:
    """Return the path of a file:// URL, or None for an http or https URL. Raises `SettingError` for any other URL."""
    parts = urlsplit(url)
    if parts.scheme == "file" and parts.path and parts.netloc in ("", "localhost"):
        return unquote(parts.path)
    if parts.scheme in ("http", "https") and parts.netloc:
        return None
    raise SettingError(f"{setting}: {url} is not a URL of a file or a web server: write file:///path or https://host/path.")


def reason(failure: BaseException) -> str:
    """Return the reason of a failure as words within a sentence."""
    if isinstance(failure, urllib.error.HTTPError):
        return f"{failure.url} answers {failure.code} {failure.reason}"
    if isinstance(failure, urllib.error.URLError):
        return f"it cannot be reached ({failure.reason})"
    if isinstance(failure, OSError) and failure.filename:
        return f"{failure.filename} cannot be read ({failure.strerror})"
    return str(failure) or type(failure).__name__
