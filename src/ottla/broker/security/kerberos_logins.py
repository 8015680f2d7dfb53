"""GSSAPI on a listener: the broker's keytab, and the rules that map principals to users, from its settings (KIP-12)."""

from __future__ import annotations

from functools import partial

from ottla.broker.security.kerberos_names import parse_rules, short_name
from ottla.broker.security.offers import Begin, Means, OfferedAt
from ottla.broker.settings import SettingError
from ottla.sasl.gssapi import GssapiServer

MODULE = "com.sun.security.auth.module.Krb5LoginModule"
RULES = "sasl.kerberos.principal.to.local.rules"


def gssapi(at: OfferedAt, means: Means) -> Begin:
    """Return the mechanism with the keytab of the login module's options, as in Kafka. Raise `SettingError`."""
    name, options = at.named("sasl.jaas.config"), at.options()
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
