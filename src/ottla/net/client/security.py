"""The security of one client's links: the TLS context, made once, and a new login for each link.

The module reads the files that settings name. It opens no connections.
"""

from __future__ import annotations

import os
import ssl

from ottla.client.connection.authentication import SaslExchange
from ottla.client.errors import AuthenticationFailed, SettingError
from ottla.client.settings.security import GSSAPI, OAUTHBEARER, SecureSettings
from ottla.net.client.credentials import context_of, extensions_of, source_of
from ottla.net.security.key_stores import load_key, load_trust
from ottla.net.security.tls_versions import NEWEST_SUITES, VERSIONS, openssl_name
from ottla.sasl.clients import client_mechanism
from ottla.sasl.gssapi import GssapiClient
from ottla.sasl.mechanism import ClientMechanism, SaslFailed
from ottla.sasl.oauthbearer import OAuthBearerClient
from ottla.wire.errors import SASL_AUTHENTICATION_FAILED


class Security:
    """The TLS context and the logins of a client whose settings use TLS or SASL. Raises `SettingError` for unusable files."""

    def __init__(self, settings: SecureSettings) -> None:
        self._settings = settings
        self.context = _context(settings) if settings.uses_tls else None
        self._token = source_of(settings) if settings.uses_sasl and settings.sasl_mechanism == OAUTHBEARER else None

    @property
    def uses_sasl(self) -> bool:
        return self._settings.uses_sasl

    def exchange(self, host: str, where: str) -> SaslExchange:
        """Return a new login at a broker. This can take long if a token is fetched. Raises `AuthenticationFailed`."""
        settings = self._settings
        try:
            mechanism = self._mechanism(host)
        except SaslFailed as error:
            raise AuthenticationFailed(f"Login at {where} failed: {error}", SASL_AUTHENTICATION_FAILED) from None
        return SaslExchange(settings.sasl_mechanism, mechanism, where)

    def _mechanism(self, host: str) -> ClientMechanism:
        """Return the client's side of the SASL mechanism. Raises `SaslFailed`."""
        settings = self._settings
        if self._token is not None:
            return OAuthBearerClient(self._token(), extensions_of(settings.options()))
        if settings.sasl_mechanism == GSSAPI:
            return GssapiClient(context_of(settings, host))
        login = settings.login()
        return client_mechanism(settings.sasl_mechanism, login.username, login.password, os.urandom, token=login.by_token)


def _spell(name: str) -> str:
    return name.replace(".", "_")


def _context(settings: SecureSettings) -> ssl.SSLContext:
    if isinstance(settings.ssl_context, ssl.SSLContext):
        return settings.ssl_context
    if settings.ssl_context is not None:
        raise SettingError(f"ssl_context must be an ssl.SSLContext, not a {type(settings.ssl_context).__name__}.")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = settings.ssl_endpoint_identification_algorithm == "https"
    versions = [VERSIONS[word] for word in settings.ssl_enabled_protocols]
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    if settings.ssl_cipher_suites:
        _choose_ciphers(context, settings.ssl_cipher_suites)
    given = settings.tls_settings()
    load_key(context, given, _spell)
    if not load_trust(context, given, _spell):
        context.load_default_certs()
    return context


def _choose_ciphers(context: ssl.SSLContext, names: tuple[str, ...]) -> None:
    """Set the ciphers of TLS 1.2. All ciphers of TLS 1.3 are offered, because the standard library cannot choose among them."""
    try:
        context.set_ciphers(":".join(openssl_name(name) for name in names if name not in NEWEST_SUITES))
    except ssl.SSLError:
        raise SettingError(
            f"ssl_cipher_suites={','.join(names)} has no cipher suite that this system supports: leave it out."
        ) from None
