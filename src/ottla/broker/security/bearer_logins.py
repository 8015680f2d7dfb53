"""OAUTHBEARER on a listener: its required claims and trusted keys, from settings (KIP-768). Verifies no signatures."""

from __future__ import annotations

from functools import partial

from ottla.broker.security.offers import Begin, Means, OfferedAt
from ottla.broker.security.proofs import KeySource
from ottla.broker.settings import SettingError
from ottla.broker.settings.broker_tokens import UNSECURED, VALIDATORS
from ottla.sasl.bearer import BearerRules, judge_unsecured
from ottla.sasl.oauthbearer import OAuthBearerServer

HANDLER = "sasl.server.callback.handler.class"
URL = "sasl.oauthbearer.jwks.endpoint.url"
OPTION = "unsecuredValidator"


def oauthbearer(at: OfferedAt, means: Means) -> Begin:
    """Return the mechanism for signed tokens, or for unsigned tokens if configured. Raise `SettingError`."""
    settings = at.settings
    handler = settings.sasl_server_callback_handler_class
    if handler == UNSECURED:
        return partial(OAuthBearerServer, partial(judge_unsecured, _unsecured_rules(at)))
    if handler is not None and handler not in VALIDATORS:
        raise SettingError(
            f"{at.named(HANDLER)} names {handler}, which Ottla has not: leave it out for signed tokens, or, for tests alone, "
            f"name {UNSECURED}."
        )
    url = settings.sasl_oauthbearer_jwks_endpoint_url
    if not url:
        raise SettingError(
            f"OAUTHBEARER on listener {at.listener} does not know whose tokens count: set {URL} to where the keys of their "
            f"issuer are, or, for tests alone, {at.named(HANDLER)}={UNSECURED}"
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
    """Return rules from the options of the login module, under Kafka's names. Raise `SettingError`."""
    options = at.options()
    skew_ms = options.get(f"{OPTION}AllowableClockSkewMs", "0")
    if not skew_ms.isdecimal():
        raise SettingError(f"{at.named('sasl.jaas.config')} has an {OPTION}AllowableClockSkewMs that is not a number: write 3000.")
    return BearerRules(
        skew_ms=int(skew_ms),
        scope_claim=options.get(f"{OPTION}ScopeClaimName", "scope"),
        sub_claim=options.get(f"{OPTION}PrincipalClaimName", "sub"),
        required_scopes=frozenset(options.get(f"{OPTION}RequiredScope", "").split()),
        needs_issue_time=False,
        any_audience=True,
    )
