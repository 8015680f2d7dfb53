"""The translation of librdkafka's names of client settings to Kafka's, so that files of kcat and confluent-kafka can be used."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.cli.command.files import read_text

NAMES = {
    "metadata.broker.list": "bootstrap.servers",
    "sasl.mechanisms": "sasl.mechanism",
    "ssl.ca.location": "ssl.truststore.location",
    "ssl.ca.pem": "ssl.truststore.certificates",
    "ssl.certificate.pem": "ssl.keystore.certificate.chain",
    "ssl.key.pem": "ssl.keystore.key",
    "sasl.oauthbearer.client.id": "sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.client.secret": "sasl.oauthbearer.client.credentials.client.secret",
}
FILES = {"ssl.certificate.location": "ssl.keystore.certificate.chain", "ssl.key.location": "ssl.keystore.key"}
"""Settings of librdkafka that name a PEM file, and Kafka's settings that have the text of such a file."""
NO_CHECK = "none"
"""librdkafka's value of `ssl.endpoint.identification.algorithm` that accepts any host name; Kafka's is empty."""


def translated(texts: Mapping[str, str]) -> dict[str, str]:
    """Return settings by Kafka's names; other names are kept. Raises `SettingError` for a file that cannot be read."""
    found: dict[str, str] = {}
    for name, text in texts.items():
        if name in FILES:
            found[FILES[name]] = read_text(text, f"a PEM file by {name}")
        elif name == "security.protocol":
            found[name] = text.upper()
        elif name == "ssl.endpoint.identification.algorithm":
            found[name] = "" if text == NO_CHECK else text
        else:
            found[NAMES.get(name, name)] = text
    return found
