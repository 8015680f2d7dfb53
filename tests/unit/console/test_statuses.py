"""The HTTP statuses of errors, for programs."""

from __future__ import annotations

import pytest

from ottla.client.errors import (
    AuthenticationFailed,
    BrokerError,
    Closed,
    ConnectionFailed,
    NotSupported,
    TimedOut,
    UnknownTopic,
)
from ottla.console.statuses import STATUSES, status_of
from ottla.errors import KafkaError, SettingError
from ottla.wire import errors as table

CODES = {known.name: code for code, known in table.ERRORS.items()}


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("INVALID_PARTITIONS", 400),
        ("INVALID_CONFIG", 400),
        ("UNACCEPTABLE_CREDENTIAL", 400),
        ("SASL_AUTHENTICATION_FAILED", 401),
        ("TRANSACTIONAL_ID_AUTHORIZATION_FAILED", 403),
        ("CLUSTER_AUTHORIZATION_FAILED", 403),
        ("GROUP_ID_NOT_FOUND", 404),
        ("RESOURCE_NOT_FOUND", 404),
        ("UNKNOWN_TOPIC_ID", 404),
        ("TOPIC_ALREADY_EXISTS", 409),
        ("NON_EMPTY_GROUP", 409),
        ("DUPLICATE_RESOURCE", 409),
        ("CONCURRENT_TRANSACTIONS", 409),
        ("MESSAGE_TOO_LARGE", 413),
        ("THROTTLING_QUOTA_EXCEEDED", 429),
        ("UNSUPPORTED_VERSION", 501),
        ("UNKNOWN_SERVER_ERROR", 502),
        ("COORDINATOR_NOT_AVAILABLE", 503),
        ("NOT_ENOUGH_REPLICAS", 503),
        ("BROKER_NOT_AVAILABLE", 503),
        ("REQUEST_TIMED_OUT", 504),
    ],
)
def test_a_code_of_a_broker_has_the_status_of_its_kind(name: str, status: int) -> None:
    assert status_of(BrokerError(CODES[name])) == status


def test_the_table_has_names_of_codes_and_each_authorization_is_forbidden() -> None:
    assert STATUSES.keys() <= CODES.keys()
    assert {STATUSES.get(name) for name in CODES if name.endswith("AUTHORIZATION_FAILED")} == {403}
    assert status_of(BrokerError(9999)) == 409


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (SettingError("x"), 400),
        (AuthenticationFailed("x"), 401),
        (Closed("x"), 401),
        (UnknownTopic(CODES["UNKNOWN_TOPIC_OR_PARTITION"]), 404),
        (KafkaError("x"), 409),
        (NotSupported("x"), 501),
        (ConnectionFailed("x"), 503),
        (TimedOut("x"), 504),
    ],
)
def test_an_error_of_a_client_has_the_status_of_its_kind(error: KafkaError, status: int) -> None:
    assert status_of(error) == status
