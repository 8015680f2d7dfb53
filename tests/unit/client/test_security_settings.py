"""The settings that secure a client: what is missing, what contradicts what, and that no text shows a secret."""

from __future__ import annotations

import ssl
from typing import Any

import pytest

import ottla
from ottla.client.settings.clients import AdminSettings, ConsumerSettings, ProducerSettings, parse

SASL: dict[str, Any] = {
    "security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", "sasl_username": "alice", "sasl_password": "hidden"
}  # fmt: skip
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"

REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no such protocol": ({"security_protocol": "TLS"}, "must be one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL, not 'TLS'"),
    "TLS left out": (
        {"ssl_truststore_location": "x"},
        "ssl_truststore_location has no effect with security_protocol=PLAINTEXT: set that to SSL or SASL_SSL.",
    ),
    "SASL left out": (
        {**SASL, "security_protocol": "SSL"},
        "sasl_mechanism has no effect with security_protocol=SSL: set that to SASL_SSL.",
    ),
    "no password": ({**SASL, "sasl_password": ""}, "sasl_password is missing: PLAIN logs in with a name and a password."),
    "no name": ({**SASL, "sasl_username": None}, "sasl_username is missing: PLAIN"),
    "no mechanism": (
        {key: value for key, value in SASL.items() if key != "sasl_mechanism"},
        "sasl_username is given, and sasl_mechanism is not given, which means GSSAPI: choose PLAIN, SCRAM-SHA-256, SCRAM-SHA-512.",
    ),
    "no such mechanism": ({**SASL, "sasl_mechanism": "DIGEST-MD5"}, "sasl_mechanism must be one of PLAIN"),
    "name and jaas": ({**SASL, "sasl_jaas_config": "x"}, "sasl_jaas_config conflicts with sasl_username"),
    "jaas of no login": (
        {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", "sasl_jaas_config": "hidden"},
        "sasl_jaas_config does not end with a semicolon",
    ),
    "jaas of another mechanism": (
        {
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": "SCRAM-SHA-256",
            "sasl_jaas_config": f'{MODULE} required password="hidden";',
        },
        "sasl_jaas_config names PlainLoginModule, which is not for sasl_mechanism=SCRAM-SHA-256: change one of them.",
    ),
    "context and file": (
        {"security_protocol": "SSL", "ssl_context": ssl.create_default_context(), "ssl_keystore_location": "x"},
        "ssl_keystore_location conflicts with ssl_context",
    ),
    "another algorithm": ({"ssl_endpoint_identification_algorithm": "ldaps"}, "must be https, or empty to accept"),
    "an old protocol": ({"ssl_enabled_protocols": "TLSv1.1"}, "ssl_enabled_protocols must be one of TLSv1.2, TLSv1.3"),
    "a password of bytes": ({**SASL, "sasl_password": b"hidden"}, "sasl_password must be a string, not a bytes"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_meant_is_one_sentence_without_the_secret(case: str) -> None:
    given, sentence = REFUSED[case]
    with pytest.raises(ottla.SettingError) as refused:
        parse(AdminSettings, given)
    assert sentence in str(refused.value)
    assert "hidden" not in str(refused.value)


@pytest.mark.parametrize("kind", [AdminSettings, ConsumerSettings, ProducerSettings])
def test_no_text_of_settings_shows_a_secret(kind: type[AdminSettings]) -> None:
    secrets = ("sasl_password", "ssl_keystore_password", "ssl_truststore_password", "ssl_key_password", "ssl_keystore_key")
    made = parse(kind, {**SASL, **dict.fromkeys(secrets, "hidden")})
    assert "alice" in repr(made)
    assert "hidden" not in repr(made)
    assert "hidden" not in repr(made.login())


def test_java_says_name_and_password_in_one_setting() -> None:
    text = f'{MODULE} required username="alice" password="hid;den";'
    made = parse(AdminSettings, {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN", "sasl_jaas_config": text})
    login = made.login()
    assert (login.username, login.password, login.by_token) == ("alice", "hid;den", False)


def test_a_delegation_token_is_said_as_in_java() -> None:
    text = 'a.ScramLoginModule required username="id" password="hmac" tokenauth="true";'
    made = parse(AdminSettings, {"security_protocol": "SASL_SSL", "sasl_mechanism": "SCRAM-SHA-256", "sasl_jaas_config": text})
    assert made.login().by_token
