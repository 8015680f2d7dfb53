"""The verification of tokens and tickets on a real machine: keys of files and web servers, and the system's Kerberos.

A library is imported only when a listener offers the mechanism that needs it. Brokers without that mechanism start faster.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.broker.security.proofs import KeySource
    from ottla.net.security.jwks import Keys
    from ottla.sasl.bearer import BearerRules
    from ottla.sasl.gssapi import SecurityContext
    from ottla.sasl.oauthbearer import Validate


class SystemProofs:
    """Implements `Proofs`. The keys of one source are fetched once for all listeners. `close` ends the fetches."""

    def __init__(self) -> None:
        self._keys: dict[KeySource, Keys] = {}

    def signed_tokens(self, rules: BearerRules, source: KeySource) -> Validate:
        from ottla.net.security.jwt_tokens import SignedTokens, check_installed

        check_installed()
        if source not in self._keys:
            self._keys[source] = _keys(source)
        return SignedTokens(rules, self._keys[source]).validate

    def kerberos(self, keytab: str, principal: str, setting: str) -> Callable[[], SecurityContext]:
        from ottla.net.security.kerberos import Keytab, acceptor, check_installed

        check_installed()
        keys = Keytab(keytab, principal)
        keys.check(setting)
        return partial(acceptor, keys)

    def close(self) -> None:
        for keys in self._keys.values():
            keys.close()


def _keys(source: KeySource) -> Keys:
    from ottla.net.security.jwks import URL_SETTING, FetchTimes, JwksFile, JwksUrl, local_path

    path = local_path(URL_SETTING, source.url)
    if path is not None:
        return JwksFile(path)
    return JwksUrl(source.url, FetchTimes(source.refresh_ms / 1000, source.backoff_ms / 1000, source.backoff_max_ms / 1000))
