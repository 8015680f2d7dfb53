"""The settings that secure connections: `security_protocol`, `ssl_*` and `sasl_*` of every client, by Kafka's names.

The module checks values and contradictions between them; it reads no file and opens no connection.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from typing import Any

from ottla.client.errors import SettingError
from ottla.client.settings import declaration
from ottla.client.settings.declaration import declare
from ottla.sasl import jaas
from ottla.sasl.jaas import LoginModule

PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL = PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
PLAIN, SCRAM_256, SCRAM_512, OAUTHBEARER, GSSAPI = MECHANISMS = (
    "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI"
)  # fmt: skip
BY_PASSWORD = (PLAIN, SCRAM_256, SCRAM_512)
SECURITY_PROTOCOL, SSL_PREFIX, SASL_PREFIX = "security_protocol", "ssl_", "sasl_"
_MODULES = {
    "PlainLoginModule": (PLAIN,),
    "ScramLoginModule": (SCRAM_256, SCRAM_512),
    "OAuthBearerLoginModule": (OAUTHBEARER,),
    "Krb5LoginModule": (GSSAPI,),
}
"""The SASL mechanisms of each login module of Java's clients, by the last part of its class name."""


def _algorithm(name: str, value: object) -> str:
    found = str(value or "").lower()
    if found not in ("https", ""):
        raise SettingError(f"{name} must be https, or empty to accept certificates of any host, not {value!r}.")
    return found


def _protocols(name: str, value: object) -> tuple[str, ...]:
    found = declaration.words(name, value)
    for word in found:
        declaration.OneOf(["TLSv1.2", "TLSv1.3"])(name, word)
    return found


@dataclass(frozen=True, kw_only=True)
class SecureSettings:
    """The settings that secure a client's connections. Without `security_protocol`, connections are plain text."""

    security_protocol: str = declare(
        PLAINTEXT, declaration.OneOf(PROTOCOLS), f"The protocol of connections: {', '.join(PROTOCOLS[:-1])} or {PROTOCOLS[-1]}."
    )
    ssl_truststore_location: str | None = declare(
        None, declaration.text, "The file of certificates to trust, PEM or PKCS#12; without one, the system's are trusted."
    )
    ssl_truststore_password: str | None = declare(None, declaration.secret, "The password of a PKCS#12 trust store.", secret=True)
    ssl_truststore_type: str | None = declare(
        None, declaration.text, "The type of the trust store, PEM or PKCS12; by default that of the file."
    )
    ssl_truststore_certificates: str | None = declare(None, declaration.text, "The certificates to trust, as PEM text.")
    ssl_keystore_location: str | None = declare(
        None, declaration.text, "The file of this client's private key and certificates, PEM or PKCS#12."
    )
    ssl_keystore_password: str | None = declare(None, declaration.secret, "The password of a PKCS#12 key store.", secret=True)
    ssl_keystore_type: str | None = declare(
        None, declaration.text, "The type of the key store, PEM or PKCS12; by default that of the file."
    )
    ssl_keystore_key: str | None = declare(None, declaration.secret, "This client's private key, as PEM text.", secret=True)
    ssl_keystore_certificate_chain: str | None = declare(None, declaration.text, "The certificates of that key, as PEM text.")
    ssl_key_password: str | None = declare(None, declaration.secret, "The password of an encrypted private key.", secret=True)
    ssl_endpoint_identification_algorithm: str = declare(
        "https",
        _algorithm,
        'https: a broker\'s certificate must match its host name; "" accepts any host name.',
        given='Literal["https", ""]',
    )
    ssl_enabled_protocols: tuple[str, ...] = declare(
        ("TLSv1.2", "TLSv1.3"), _protocols, "The enabled versions of TLS:  TLSv1.2, TLSv1.3.", given="str | Iterable[str]"
    )
    ssl_cipher_suites: tuple[str, ...] = declare(
        (), declaration.words, "The cipher suites of TLS 1.2 to offer, by Java's or OpenSSL's names.", given="str | Iterable[str]"
    )
    ssl_context: object | None = declare(
        None, declaration.accept_any, "An `ssl.SSLContext` that replaces all other ssl_* settings."
    )
    sasl_mechanism: str = declare(GSSAPI, declaration.OneOf(MECHANISMS), f"The SASL mechanism: {', '.join(MECHANISMS)}.")
    sasl_username: str | None = declare(None, declaration.check_name, "The name of the user, for PLAIN and SCRAM.")
    sasl_password: str | None = declare(None, declaration.secret, "The user's password.", secret=True)
    sasl_jaas_config: str | None = declare(
        None,
        declaration.secret,
        "The login module with name and password, as in a file for Java clients (--command-config).",
        secret=True,
    )

    sasl_oauthbearer_token_callback: object | None = declare(
        None,
        declaration.accept_any,
        "A function without arguments that returns an OAUTHBEARER token; it is called on another thread.",
        given="Callable[[], str] | None",
    )
    sasl_oauthbearer_token_endpoint_url: str | None = declare(
        None,
        declaration.text,
        "The token endpoint, https://host/path (client credentials), or file:///path of a file with a token.",
    )
    sasl_oauthbearer_client_credentials_client_id: str | None = declare(
        None, declaration.check_name, "The OAuth client id (RFC 6749, client credentials)."
    )
    sasl_oauthbearer_client_credentials_client_secret: str | None = declare(
        None, declaration.secret, "The OAuth client secret.", secret=True
    )
    sasl_oauthbearer_scope: str | None = declare(None, declaration.text, "The OAuth scope to request.")
    sasl_kerberos_service_name: str | None = declare(
        None, declaration.check_name, "The service name of the brokers' Kerberos principals, often kafka, for GSSAPI."
    )

    @property
    def uses_tls(self) -> bool:
        return self.security_protocol in (SSL, SASL_SSL)

    @property
    def uses_sasl(self) -> bool:
        return self.security_protocol in (SASL_PLAINTEXT, SASL_SSL)

    def security_settings(self) -> dict[str, Any]:
        """Return the security settings that differ from their defaults, for use in another client of the same cluster."""
        return {each.name: getattr(self, each.name) for each in fields(SecureSettings) if getattr(self, each.name) != each.default}

    def tls_settings(self) -> dict[str, str | None]:
        """Return the settings of trust store and key store, by Kafka's names with dots."""
        names = [each.name for each in fields(self) if each.name.startswith(("ssl_truststore", "ssl_keystore", "ssl_key_"))]
        return {name.replace("_", "."): getattr(self, name) for name in names}

    def login(self) -> Login:
        """Return the name and password of the login, empty if there are none. Raises `SettingError`."""
        if self.sasl_jaas_config is None:
            return Login(self.sasl_username or "", self.sasl_password or "")
        return _of_jaas(self.sasl_jaas_config, self.sasl_mechanism)

    def options(self) -> Mapping[str, str]:
        """Return the options in `sasl_jaas_config`; an empty mapping without this setting. Raises `SettingError`."""
        return {} if self.sasl_jaas_config is None else _module(self.sasl_jaas_config, self.sasl_mechanism).options

    def client_credentials(self) -> tuple[str, str, str]:
        """Return client id, secret and scope for fetching tokens, each empty if not given. Raises `SettingError`."""
        options = self.options()
        return (
            self.sasl_oauthbearer_client_credentials_client_id or options.get("clientId", ""),
            self.sasl_oauthbearer_client_credentials_client_secret or options.get("clientSecret", ""),
            self.sasl_oauthbearer_scope or options.get("scope", ""),
        )

    def check_security(self, given: Collection[str]) -> None:
        """Raise `SettingError` if settings in `given` contradict each other, or a required one is missing."""
        for prefix, used, better in ((SSL_PREFIX, self.uses_tls, "SSL or SASL_SSL"), (SASL_PREFIX, self.uses_sasl, "SASL_SSL")):
            idle = sorted(name for name in given if name.startswith(prefix) and getattr(self, name))
            if idle and not used:
                raise SettingError(
                    f"{idle[0]} has no effect with security_protocol={self.security_protocol}: set that to {better}."
                )
        others = sorted(name for name in given if name.startswith(SSL_PREFIX) and name != "ssl_context")
        if self.ssl_context is not None and others:
            raise SettingError(f"{others[0]} conflicts with ssl_context, which replaces all ssl_* settings: remove one of them.")
        if self.uses_sasl:
            self._check_login(given)

    def _check_login(self, given: Collection[str]) -> None:
        if self.sasl_jaas_config is not None and (self.sasl_username or self.sasl_password):
            raise SettingError("sasl_jaas_config conflicts with sasl_username and sasl_password: remove one of them.")
        if self.sasl_username is not None and self.sasl_mechanism not in BY_PASSWORD:
            was = "is" if "sasl_mechanism" in given else "is not given, which means"
            raise SettingError(
                f"sasl_username is given, and sasl_mechanism {was} {self.sasl_mechanism}: choose {', '.join(BY_PASSWORD)}."
            )
        if self.sasl_mechanism == OAUTHBEARER:
            self._check_tokens()
        if self.sasl_mechanism == GSSAPI and not self.service():
            raise SettingError("sasl_kerberos_service_name is missing: name the service of the brokers' principals, such as kafka.")
        if self.sasl_mechanism in BY_PASSWORD:
            login = self.login()
            for name, value in (("sasl_username", login.username), ("sasl_password", login.password)):
                if not value:
                    raise SettingError(f"{name} is missing: {self.sasl_mechanism} logs in with a name and a password.")

    def service(self) -> str:
        """Return the Kerberos service name of the brokers, empty if not given. Raises `SettingError`."""
        return self.sasl_kerberos_service_name or self.options().get("serviceName", "")

    def _check_tokens(self) -> None:
        callback, url = self.sasl_oauthbearer_token_callback, self.sasl_oauthbearer_token_endpoint_url
        if (callback is None) == (url is None):
            raise SettingError(
                "OAUTHBEARER has one source of tokens: set sasl_oauthbearer_token_callback or sasl_oauthbearer_token_endpoint_url."
            )
        if callback is not None and not callable(callback):
            raise SettingError("sasl_oauthbearer_token_callback must be a function that returns a token.")
        client_id, client_secret, _ = self.client_credentials()
        if url is not None and not url.startswith("file:") and not (client_id and client_secret):
            raise SettingError(
                "sasl_oauthbearer_token_endpoint_url needs sasl_oauthbearer_client_credentials_client_id and "
                "sasl_oauthbearer_client_credentials_client_secret: set both."
            )


@dataclass(frozen=True, slots=True)
class Login:
    """A name and a password. With `by_token`, they are the id and the HMAC of a delegation token (KIP-48)."""

    username: str
    password: str
    by_token: bool = False

    def __repr__(self) -> str:
        return f"Login({self.username!r})"


def _of_jaas(text: str, mechanism: str) -> Login:
    options = _module(text, mechanism).options
    return Login(options.get("username", ""), options.get("password", ""), options.get("tokenauth", "").lower() == "true")


def _module(text: str, mechanism: str) -> LoginModule:
    try:
        module = jaas.parse(text)
    except ValueError as error:
        raise SettingError(f"sasl_jaas_config {error}") from None
    name = module.name.rpartition(".")[2]
    if mechanism not in _MODULES.get(name, (mechanism,)):
        raise SettingError(f"sasl_jaas_config names {name}, which is not for sasl_mechanism={mechanism}: change one of them.")
    return module
