"""The SASL mechanisms, and how each is created from a listener's settings. A new mechanism is one entry of `MECHANISMS`."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from ottla.broker.security.authentication import MOST_BYTES, Offer, SaslListener
from ottla.broker.security.kerberos_names import parse_rules, short_name
from ottla.broker.security.offers import Begin, Means, OfferedAt
from ottla.broker.security.proofs import KeySource
from ottla.broker.settings import BrokerSettings, SettingError
from ottla.broker.settings.broker_tokens import UNSECURED, VALIDATORS
from ottla.cluster.tokens import USER
from ottla.sasl import gssapi as kerberos
from ottla.sasl import oauthbearer as bearer
from ottla.sasl import plain
from ottla.sasl.bearer import BearerRules, judge_unsecured
from ottla.sasl.gssapi import GssapiServer
from ottla.sasl.oauthbearer import OAuthBearerServer
from ottla.sasl.plain import PlainServer
from ottla.sasl.scram import ALGORITHMS, LEAST_ITERATIONS, NONCE_BYTES, Algorithm, credential_of, letters, nonce
from ottla.sasl.scram_server import Account, ScramServer

PLAIN_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
USER_OPTION: Final = "user_"

MODULE = "com.sun.security.auth.module.Krb5LoginModule"
RULES = "sasl.kerberos.principal.to.local.rules"

SALT = b"salt of a delegation token"

HANDLER = "sasl.server.callback.handler.class"
URL = "sasl.oauthbearer.jwks.endpoint.url"
OPTION = "unsecuredValidator"


def _oauthbearer(at: OfferedAt, means: Means) -> Begin:
    """Return the mechanism for signed tokens, or for unsigned tokens if configured. Raises `SettingError`."""
    settings = at.settings
    handler = settings.sasl_server_callback_handler_class
    if handler == UNSECURED:
        return partial(OAuthBearerServer, partial(judge_unsecured, _unsecured_rules(at)))
    if handler is not None and handler not in VALIDATORS:
        raise SettingError(
            f"{at.full_name(HANDLER)} names {handler}, which Ottla has not: leave it out for signed tokens, or, for tests alone, "
            f"name {UNSECURED}."
        )
    url = settings.sasl_oauthbearer_jwks_endpoint_url
    if not url:
        raise SettingError(
            f"OAUTHBEARER on listener {at.listener} does not know whose tokens count: set {URL} to where the keys of their "
            f"issuer are, or, for tests alone, {at.full_name(HANDLER)}={UNSECURED}"
        )
    source = KeySource(
        url,
        settings.sasl_oauthbearer_jwks_endpoint_refresh_ms,
        settings.sasl_oauthbearer_jwks_endpoint_retry_backoff_ms,
        settings.sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms,
    )
    rules = BearerRules(
        frozenset(settings.sasl_oauthbearer_expected_audience),
        settings.sasl_oauthbearer_expected_issuer or None,
        settings.sasl_oauthbearer_clock_skew_seconds * 1000,
        settings.sasl_oauthbearer_scope_claim_name,
        settings.sasl_oauthbearer_sub_claim_name,
        frozenset(settings.ottla_sasl_oauthbearer_required_scope),
    )
    return partial(OAuthBearerServer, means.proofs.signed_tokens(rules, source))


def _unsecured_rules(at: OfferedAt) -> BearerRules:
    """Return rules from the options of the login module, under Kafka's names. Raises `SettingError`."""
    options = at.options()
    skew_ms = options.get(f"{OPTION}AllowableClockSkewMs", "0")
    if not skew_ms.isdecimal():
        raise SettingError(
            f"{at.full_name('sasl.jaas.config')} has an {OPTION}AllowableClockSkewMs that is not a number: write 3000."
        )
    return BearerRules(
        skew_ms=int(skew_ms),
        scope_claim=options.get(f"{OPTION}ScopeClaimName", "scope"),
        sub_claim=options.get(f"{OPTION}PrincipalClaimName", "sub"),
        required_scopes=frozenset(options.get(f"{OPTION}RequiredScope", "").split()),
        needs_issue_time=False,
        any_audience=True,
    )


def _scram(algorithm: Algorithm, at: OfferedAt, means: Means) -> Begin:
    """Return SCRAM with the users in the registry. No settings are needed."""
    lookup, nobody = partial(_account, algorithm, means), partial(means.credentials.fake_credential, algorithm=algorithm)
    return lambda: ScramServer(algorithm, lookup, nonce(means.random_bytes), nobody)


def _account(algorithm: Algorithm, means: Means, name: str, is_token: bool) -> Account | Callable[[], Account] | None:
    if is_token:
        return _of_token(algorithm, means, name)
    credential = means.credentials.find(name, algorithm)
    return None if credential is None else Account(name, credential)


def _of_token(algorithm: Algorithm, means: Means, token_id: str) -> Account | Callable[[], Account] | None:
    """Return the account of a delegation token's owner. Return a function that computes it if the credential is not cached."""
    login = means.tokens.login(token_id)
    if login is None:
        return None
    name, kept = login.owner.removeprefix(USER), means.tokens.credentials
    found = kept.get((token_id, algorithm.name))
    if found is not None:
        return Account(name, found, login.expiry_ms, by_token=True)

    def compute() -> Account:
        salt = letters(algorithm.hmac(login.password.encode(), SALT)[:NONCE_BYTES]).encode()
        salted = algorithm.salt_password(login.password, salt, LEAST_ITERATIONS)
        credential = kept[token_id, algorithm.name] = credential_of(algorithm, salted, salt, LEAST_ITERATIONS)
        return Account(name, credential, login.expiry_ms, by_token=True)

    return compute


def _gssapi(at: OfferedAt, means: Means) -> Begin:
    """Return the mechanism with the keytab of the login module's options, as in Kafka. Raises `SettingError`."""
    name, options = at.full_name("sasl.jaas.config"), at.options()
    keytab, principal = options.get("keyTab"), options.get("principal")
    if not keytab or not principal or "@" not in principal:
        example = f'{MODULE} required useKeyTab=true storeKey=true keyTab="/path/kafka.keytab" principal="kafka/host@REALM";'
        raise SettingError(f"GSSAPI on listener {at.listener} has no keytab with a principal of the broker: set {name}={example}")
    try:
        rules = parse_rules(at.settings.sasl_kerberos_principal_to_local_rules, principal.rpartition("@")[2])
    except ValueError as error:
        raise SettingError(f"{RULES}: {error}") from None
    accept = means.proofs.kerberos(keytab, principal, name)
    return partial(GssapiServer, accept, partial(short_name, rules))


def _plain(at: OfferedAt, means: Means) -> Begin:
    """Return PLAIN with the users and passwords of the login module's options, as in Kafka. Raises `SettingError`."""
    name = at.full_name("sasl.jaas.config")
    text = at.settings.sasl_jaas_config
    example = f'{PLAIN_MODULE} required user_alice="PASSWORD";'
    if not text:
        raise SettingError(f"PLAIN has no users on listener {at.listener}: set {name}={example}")
    module = at.module()
    users = {option.removeprefix(USER_OPTION): value for option, value in module.options.items() if option.startswith(USER_OPTION)}
    if module.name != PLAIN_MODULE or not users:
        raise SettingError(f"{name} has no users of PLAIN: write it as {example}")
    return partial(PlainServer, _verifier(users))


def _verifier(users: Mapping[str, str]) -> Callable[[str, str], bool]:
    digests = {name: _digest(password) for name, password in users.items()}
    nobody = _digest("")

    def verify(name: str, password: str) -> bool:
        is_same = hmac.compare_digest(digests.get(name, nobody), _digest(password))
        return is_same and name in digests

    return verify


def _digest(password: str) -> bytes:
    return hashlib.sha256(password.encode()).digest()


MECHANISMS: Final[dict[str, Callable[[OfferedAt, Means], Begin]]] = {
    plain.NAME: _plain,
    **{name: partial(_scram, algorithm) for name, algorithm in ALGORITHMS.items()},
    bearer.NAME: _oauthbearer,
    kerberos.NAME: _gssapi,
}
"""Factories of the mechanisms, by name. They raise `SettingError`."""


def offer(means: Means, settings: BrokerSettings, listener: str) -> SaslListener:
    """Return the mechanisms of a listener with SASL. Raises `SettingError`."""
    own = settings.of_listener(listener)
    if not own.sasl_enabled_mechanisms:
        raise SettingError(f"Listener {listener} has SASL and no mechanism: set sasl.enabled.mechanisms.")
    offers = {}
    for name in own.sasl_enabled_mechanisms:
        if name not in MECHANISMS:
            known = ", ".join(sorted(MECHANISMS))
            raise SettingError(f"{name!r} in sasl.enabled.mechanisms is not a supported SASL mechanism: choose among {known}.")
        at = OfferedAt(settings.of_listener(listener, name), listener, name)
        offers[name] = Offer(MECHANISMS[name](at, means), at.settings.connections_max_reauth_ms)
    most_bytes = min(own.sasl_server_max_receive_size, MOST_BYTES)
    return SaslListener(offers, most_bytes, own.connection_failed_authentication_delay_ms)
