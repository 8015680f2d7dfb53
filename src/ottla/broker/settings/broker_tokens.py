"""The broker's settings for tokens and tickets of other issuers, and for its own delegation tokens. Declarations only."""

from __future__ import annotations

from ottla.broker.settings.kinds import CLASS, INT, LIST, LONG, PASSWORD, STRING, at_least
from ottla.broker.settings.setting import Reach, Setting, SettingsOf, unset

DAY_MS = 24 * 3600 * 1000
OAUTH = "org.apache.kafka.common.security.oauthbearer."
VALIDATORS = (f"{OAUTH}OAuthBearerValidatorCallbackHandler", f"{OAUTH}secured.OAuthBearerValidatorCallbackHandler")
UNSECURED = f"{OAUTH}internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"


class TokenSettings(SettingsOf):
    """OAUTHBEARER, GSSAPI and delegation tokens. The first two are configured for a listener, or for a mechanism of a listener."""

    delegation_token_expiry_check_interval_ms = Setting(
        LONG, 3_600_000, "Time between two checks for expired delegation tokens.", check=at_least(1)
    )
    delegation_token_expiry_time_ms = Setting(
        LONG, DAY_MS, "How long a delegation token lives until it has to be renewed.", check=at_least(1)
    )
    delegation_token_max_lifetime_ms = Setting(
        LONG, 7 * DAY_MS, "How long a delegation token can live, however often it is renewed.", check=at_least(1)
    )
    delegation_token_secret_key = unset(
        PASSWORD, "What delegation tokens are proved with, the same on all brokers; without it there are none (KIP-48)."
    )
    sasl_kerberos_principal_to_local_rules = Setting(
        LIST,
        ("DEFAULT",),
        "Mapping of a Kerberos principal to a user: RULE:[components:form](pattern)s/pattern/replacement/g/L, or DEFAULT.",
        dynamic=True,
        reach=Reach.ONE,
    )
    sasl_kerberos_service_name = unset(
        STRING,
        "The broker's Kerberos service name; its principal is that of its keytab.",
        dynamic=True,
        reach=Reach.ONE,
    )
    sasl_oauthbearer_clock_skew_seconds = Setting(
        INT, 30, "Maximum difference between the clocks of a token's issuer and this broker.", check=at_least(0)
    )
    sasl_oauthbearer_expected_audience = Setting(
        LIST, (), "Accepted audiences of tokens (aud); if not set, tokens with an audience are refused."
    )
    sasl_oauthbearer_expected_issuer = unset(STRING, "Required issuer of tokens (iss).")
    sasl_oauthbearer_jwks_endpoint_refresh_ms = Setting(
        LONG, 3_600_000, "Time after which the issuer's keys are fetched again.", check=at_least(1)
    )
    sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms = Setting(
        LONG, 10_000, "Longest time until keys that could not be fetched are tried again.", check=at_least(1)
    )
    sasl_oauthbearer_jwks_endpoint_retry_backoff_ms = Setting(
        LONG, 100, "Time until keys that could not be fetched are tried again; it doubles each time.", check=at_least(1)
    )
    sasl_oauthbearer_jwks_endpoint_url = unset(
        STRING, "URL of the issuer's keys (JWKS): https://host/path, or file:///path, which is read again when it changes."
    )
    sasl_oauthbearer_scope_claim_name = Setting(STRING, "scope", "The claim of a token that has its scopes.")
    sasl_oauthbearer_sub_claim_name = Setting(STRING, "sub", "The claim of a token that names its user.")
    sasl_server_callback_handler_class = unset(
        CLASS, f"What judges tokens: {VALIDATORS[0]}, which is the default, or, for tests alone, {UNSECURED}."
    )
    ottla_sasl_oauthbearer_required_scope = Setting(LIST, (), "Required scopes of a token, all of them.")
