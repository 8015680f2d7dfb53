"""Requests of administration, right and wrong: the answers that Apache Kafka 4.3 was seen to give, on a simulated broker."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ottla.broker.settings import SecurityProtocol
from tests.support.acl_peers import MachineOfUsers
from tests.support.administration import ANSWERS, SECRETS, Administration, Case
from tests.support.administration_cases import administration_cases
from tests.support.administration_differences import expected

SECRET = {name.replace(".", "_"): value for name, value in SECRETS.items()}
CASES = administration_cases()


@pytest.fixture(scope="module")
def seen() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(ANSWERS.read_text(encoding="utf-8"))
    return found


@pytest.fixture(scope="module")
def answers() -> dict[str, Any]:
    """All cases are asked of one broker, in their order."""
    administration = Administration(MachineOfUsers(security_protocol=SecurityProtocol.SSL, **SECRET).ask)
    return {str(case): administration.answer(case) for case in CASES}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_request_is_answered_as_kafka_does_or_as_is_said(answers: dict[str, Any], seen: dict[str, Any], case: Case) -> None:
    assert answers[str(case)] == expected(seen, str(case))
