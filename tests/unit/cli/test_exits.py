"""The sentences of commands about errors."""

from __future__ import annotations

import pytest

from ottla.cli.command.exits import name_settings


@pytest.mark.parametrize(
    ("sentence", "named"),
    [
        (
            "sasl_password has no effect: set security_protocol=SASL_SSL.",
            "sasl.password has no effect: set security.protocol=SASL_SSL.",
        ),
        ("None of bootstrap_servers=a:1; change bootstrap_servers.", "None of bootstrap.servers=a:1; change bootstrap.servers."),
        ("Topic my_topic and group_id and a.linger_ms.b-linger_ms", "Topic my_topic and group_id and a.linger_ms.b-linger_ms"),
        ("There is no topic t.", "There is no topic t."),
    ],
)
def test_settings_have_the_names_of_options(sentence: str, named: str) -> None:
    assert name_settings(sentence) == named
