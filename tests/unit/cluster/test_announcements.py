"""The entries by which brokers tell each other what changed, written and read as Kafka's own brokers do."""

from __future__ import annotations

import pytest

from ottla.cluster.announcements import (
    CONFIGS,
    LITERAL_ACLS,
    OTHER_ACLS,
    TOKENS,
    Announcements,
    notifications_of,
    parse_notification,
)
from ottla.ports import Change

TOLD = [
    ("/config/topics/t", CONFIGS, b'{"version":2,"entity_path":"topics/t"}'),
    ("/config/brokers/<default>", CONFIGS, b'{"version":2,"entity_path":"brokers/<default>"}'),
    ("/config/users/a%40b/clients/c", CONFIGS, b'{"version":2,"entity_path":"users/a%40b/clients/c"}'),
    ("/kafka-acl/TransactionalId/x:y", LITERAL_ACLS, b"TRANSACTIONAL_ID:x:y"),
    ("/kafka-acl/Topic/*", LITERAL_ACLS, b"TOPIC:*"),
    (
        "/kafka-acl-extended/prefixed/Group/g",
        OTHER_ACLS,
        b'{"version":1,"resourceType":"GROUP","name":"g","patternType":"PREFIXED"}',
    ),
    ("/delegation_token/tokens/abc", TOKENS, b"abc"),
]


@pytest.mark.parametrize(("path", "where", "value"), TOLD)
def test_what_changed_is_told_in_kafkas_own_words_and_understood_from_them(path: str, where: Announcements, value: bytes) -> None:
    assert notifications_of([Change(path, b"{}")]) == [Change(f"{where.path}/{where.prefix}", value, sequential=True)]
    assert parse_notification(where, value) == path


@pytest.mark.parametrize(
    ("where", "value", "path"),
    [
        (CONFIGS, b'{"version":1,"entity_type":"clients","entity_name":"c"}', "/config/clients/c"),
        (LITERAL_ACLS, b"Topic:t", "/kafka-acl/Topic/t"),
        (
            OTHER_ACLS,
            b'{"patternType":"PREFIXED","name":"t","resourceType":"Topic","version":1}',
            "/kafka-acl-extended/prefixed/Topic/t",
        ),
    ],
)
def test_what_older_brokers_and_tools_wrote_is_understood(where: Announcements, value: bytes, path: str) -> None:
    assert parse_notification(where, value) == path


@pytest.mark.parametrize(
    ("where", "value"),
    [
        (CONFIGS, b"not JSON"),
        (CONFIGS, b"[]"),
        (CONFIGS, b'{"version":2}'),
        (CONFIGS, b'{"version":2,"entity_path":"topics"}'),
        (CONFIGS, b'{"version":2,"entity_path":"moons/io"}'),
        (LITERAL_ACLS, b"Topic"),
        (LITERAL_ACLS, b"Moon:io"),
        (OTHER_ACLS, b"{}"),
    ],
)
def test_a_notification_that_says_nothing_is_refused(where: Announcements, value: bytes) -> None:
    with pytest.raises(ValueError, match=r"it says|Expecting|unknown entity|no resource|not a JSON object"):
        parse_notification(where, value)


def test_the_settings_of_a_new_or_deleted_topic_are_not_told() -> None:
    changes = [Change("/brokers/topics/t", b""), Change("/config/topics/t", b""), Change("/config/topics/u", b"")]
    assert [change.value for change in notifications_of(changes)] == [b'{"version":2,"entity_path":"topics/u"}']
    assert notifications_of([Change("/brokers/ids/1", b""), Change("/feature", b"{}")]) == []
