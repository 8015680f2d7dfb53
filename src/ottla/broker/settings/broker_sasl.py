"""The broker's settings for SASL: the mechanisms of each listener, and the lifetime of sessions. Declarations only."""

from __future__ import annotations

from ottla.broker.settings.kinds import INT, LIST, LONG, PASSWORD, STRING, at_least
from ottla.broker.settings.setting import Reach, Setting, SettingsOf, unset


class SaslSettings(SettingsOf):
    """SASL settings. Most are set for a listener or one of its mechanisms: `listener.name.internal.plain.sasl.jaas.config`."""

    connection_failed_authentication_delay_ms = Setting(
        INT, 100, "How long a failed login waits for its answer, and for the end of its connection.", check=at_least(0)
    )
    connections_max_reauth_ms = Setting(LONG, 0, "Time after which a client must reauthenticate (KIP-368); 0: never.")
    sasl_enabled_mechanisms = Setting(
        LIST, ("GSSAPI",), "The SASL mechanisms of listeners that have SASL.", dynamic=True, reach=Reach.ONE
    )
    sasl_jaas_config = unset(
        PASSWORD, "The login module of Kafka with its options, such as the users of PLAIN.", dynamic=True, reach=Reach.ONE
    )
    sasl_mechanism_controller_protocol = Setting(
        STRING, "GSSAPI", "Accepted, and without effect: there are no separate controllers."
    )
    sasl_mechanism_inter_broker_protocol = Setting(
        STRING,
        "GSSAPI",
        "The SASL mechanism between brokers, if the listener for brokers has SASL.",
        dynamic=True,
        reach=Reach.ONE,
    )
    sasl_server_max_receive_size = Setting(
        INT, 524288, "The longest frame that is read before a login, though never above 64 KB.", check=at_least(1)
    )
