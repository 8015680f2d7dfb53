"""A client's credentials beyond a password: tokens of a callback, a file or an issuer (KIP-768), and Kerberos tickets.

They are requested on a thread, once per login, because that can take long.
"""

from __future__ import annotations

import json
import threading
import time
from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import Final, cast
from urllib.parse import quote, urlencode

from ottla.client.errors import SettingError
from ottla.client.settings.security import SecureSettings
from ottla.sasl.bearer import expiry_ms
from ottla.sasl.gssapi import SecurityContext
from ottla.sasl.mechanism import SaslFailed

URL: Final = "sasl_oauthbearer_token_endpoint_url"
EXTENSION: Final = "extension_"
USED_FOR: Final = 0.8
"""The part of a token's lifetime after which another token is fetched, so that no login uses one that soon expires."""
FETCH_TIMEOUT_S: Final = 10

Source = Callable[[], str]


def source_of(settings: SecureSettings) -> Source:
    """Return the source of tokens for checked settings: a function that returns a token, or raises `SaslFailed`.

    Raises `SettingError` for settings without a usable source.
    """
    callback, url = settings.sasl_oauthbearer_token_callback, settings.sasl_oauthbearer_token_endpoint_url
    if callback is not None:
        return lambda: _call(cast("Callable[[], object]", callback))
    assert url is not None, "settings are checked"
    from ottla.net.security.jwks import local_path

    path = local_path(URL, url)
    return (lambda: _read(path)) if path is not None else Issued(url, *settings.client_credentials()).token


def extensions_of(options: Mapping[str, str]) -> dict[str, str]:
    """Return the SASL extensions that are sent with the token (KIP-342)."""
    return {name.removeprefix(EXTENSION): value for name, value in options.items() if name.startswith(EXTENSION)}


def context_of(settings: SecureSettings, host: str) -> SecurityContext:
    """Return the Kerberos context for a broker, from `sasl_jaas_config`'s keytab or the tickets of `kinit`. Raises `SaslFailed`."""
    from ottla.net.security.kerberos import initiator, keytab_in

    try:
        keytab = keytab_in(settings.options(), "sasl_jaas_config")
    except SettingError as error:
        raise SaslFailed(str(error)) from None
    return initiator(settings.service(), host, keytab)


class Issued:
    """A source of tokens that an issuer returns for a client id and a secret. All links share a token for most of its lifetime."""

    def __init__(self, url: str, client_id: str, client_secret: str, scope: str) -> None:
        self._url = url
        login = f"{quote(client_id, safe='')}:{quote(client_secret, safe='')}".encode()
        self._headers = {
            "Authorization": f"Basic {b64encode(login).decode()}",
            "Content-Type": "application/x-www-form-urlencoded",
        }
        self._body = urlencode({"grant_type": "client_credentials"} | ({"scope": scope} if scope else {})).encode()
        self._lock = threading.Lock()
        self._token = ""
        self._until_ms = 0.0

    def token(self) -> str:
        """Return a token, fetched if necessary. Raises `SaslFailed`."""
        with self._lock:
            now_ms = time.time() * 1000
            if now_ms >= self._until_ms:
                self._token = self._fetch()
                end_ms = expiry_ms(self._token)
                self._until_ms = 0 if end_ms is None else now_ms + USED_FOR * (end_ms - now_ms)
            return self._token

    def _fetch(self) -> str:
        from http.client import HTTPException

        from ottla.net.security.jwks import fetch, reason

        try:
            answer = json.loads(fetch(self._url, FETCH_TIMEOUT_S, None, self._body, self._headers))
            token = answer["access_token"]
        except (OSError, HTTPException) as failure:
            raise SaslFailed(f"{URL}: {reason(failure)}: check the URL, the id and the secret.") from None
        except (ValueError, LookupError, TypeError, RecursionError):
            raise SaslFailed(f"{URL}: {self._url} answers with no access_token: check that it is a token endpoint.") from None
        if not isinstance(token, str):
            raise SaslFailed(
                f"{URL}: {self._url} answers with an access_token that is not a string: check that it is a token endpoint."
            )
        return token.strip()


def _call(callback: Callable[[], object]) -> str:
    try:
        token = callback()
    except Exception as error:  # the user's callback may raise any exception
        raise SaslFailed(f"sasl_oauthbearer_token_callback raised {type(error).__name__}: {error}") from error
    if not isinstance(token, str):
        raise SaslFailed(f"sasl_oauthbearer_token_callback returned {type(token).__name__}: return the token as a string.")
    return token


def _read(path: str) -> str:
    try:
        with open(path, encoding="ascii") as file:
            return file.read().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SaslFailed(f"{URL}: {path} cannot be read ({error}): put the token there.") from None
