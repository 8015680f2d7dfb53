"""Requests of administration, right and wrong: Ottla's answers are those that Apache Kafka 4.3 was seen to give.

`administration_answers.json` was written by Apache Kafka: `--rewrite-scenarios -m java` writes it anew. Where Ottla differs, it
is in `administration_differences`, with reasons.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.apache_kafka import Unavailable
from tests.support.acl_peers import kafka_of_users, ottla_of_users
from tests.support.administration import ANSWERS, SECRETS, Administration
from tests.support.administration_cases import administration_cases
from tests.support.administration_differences import DIFFERENCES, expected


def test_a_served_broker_answers_as_kafka_or_as_is_said(tmp_path: Path) -> None:
    seen = json.loads(ANSWERS.read_text(encoding="utf-8"))
    with ottla_of_users(tmp_path / "broker", SECRETS) as ask:
        administration = Administration(ask)
        answers = {str(case): administration.answer(case) for case in administration_cases()}
    # The tests' brokers have another default of retention.ms; the simulated one answers these cases.
    told = {name: answer for name, answer in answers.items() if "'retention.ms'" not in str(answer)}
    assert len(told) > 600
    wrong = [name for name, answer in told.items() if answer != expected(seen, name)]
    assert not wrong, "\n".join(f"{name}:\n  {answers[name]}, and expected\n  {expected(seen, name)}" for name in wrong)


def test_each_difference_is_one_of_a_case_and_is_one() -> None:
    seen = json.loads(ANSWERS.read_text(encoding="utf-8"))
    assert list(seen) == [str(case) for case in administration_cases()]
    assert len(seen) > 600
    assert [name for name in DIFFERENCES if expected(seen, name) == seen[name]] == []


@pytest.mark.java
@pytest.mark.full(seconds=90)
@pytest.mark.timeout(600)
def test_apache_kafka_still_answers_so(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    try:
        with kafka_of_users(tmp_path / "kafka", SECRETS) as ask:
            administration = Administration(ask)
            answers = {str(case): administration.answer(case) for case in administration_cases()}
    except Unavailable as missing:
        pytest.skip(f"no Apache Kafka: {missing}")
    if request.config.getoption("--rewrite-scenarios"):
        lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(answer)}" for name, answer in answers.items())
        ANSWERS.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")
    seen = json.loads(ANSWERS.read_text(encoding="utf-8"))
    wrong = [name for name, answer in answers.items() if answer != seen[name]]
    assert not wrong, "\n".join(f"{name}:\n  {answers[name]}, and recorded\n  {seen[name]}" for name in wrong)
