"""The page of the clients' benchmark: goals by row, and which client does what."""

from __future__ import annotations

import shlex

import pytest

from bench.client_jobs import TASKS, Job
from bench.clients import GOALS, Running, Wanted, client_jobs, options, table, verdicts
from bench.report import Results

FIGURES = {"ottla": 30.0, "confluent-kafka": 10.0, "aiokafka": 7.0}


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("iterate 100 B, records/s", "≥ 3 times confluent-kafka: reached"),
        ("iterate, asyncio 1 KB, records/s", "≥ 5 times aiokafka: **missed**"),
        ("send 1 KB, acks=all, records/s", "≥ 1 times confluent-kafka: reached; ≥ 3 times aiokafka: reached"),
        ("send_table 100 B, acks=1, records/s", "≥ 5 000 000: **missed**"),
        ("send_table 1 KB, acks=1, records/s", ""),
        ("latency, acks=1, p99 ms", "≤ 1 times confluent-kafka: **missed**"),
        ("latency, acks=1, p50 ms", ""),
        ("send 1 KB, acks=all, CPU, s per million", ""),
        ("send_values 100 B, acks=1, records/s", ""),
    ],
)
def test_a_row_has_the_goals_of_its_task(name: str, said: str) -> None:
    assert verdicts(name, FIGURES) == said


def test_a_goal_beside_a_client_that_has_no_figure_is_not_said() -> None:
    assert Wanted("≥", 3, "aiokafka").verdict({"ottla": 1.0}) == ""


def test_each_goal_is_of_a_task_of_ottla() -> None:
    assert {goal.removesuffix(" 100 B") for goal in GOALS} <= set(TASKS["ottla"])


def test_each_client_that_has_a_task_does_it_and_slow_ones_do_less() -> None:
    jobs = list(client_jobs(Job("", "send", "localhost:9092", "written", 1600)))
    assert {job.client: job.count for job in jobs} == {"ottla": 1600, "confluent-kafka": 1600, "aiokafka": 200, "kafka-python": 100}
    assert [job.client for job in client_jobs(Job("", "arrow", "localhost:9092", "read", 10))] == ["ottla"]


def test_a_line_has_the_medians_of_all_clients_and_the_ratio_to_confluent_kafka() -> None:
    results = Results([])
    for client, value in FIGURES.items():
        results.add(client, {"iterate 1 KB, records/s": value})
    line = table(results).splitlines()[-1]
    assert line == "| iterate 1 KB, records/s | 30 | 10 | 7 | - | 3.00 | ≥ 3 times confluent-kafka: reached |"


def test_the_options_of_brokers_that_run_are_those_that_serve_prints() -> None:
    kafka = Running("Apache Kafka 4.3.0", "127.0.0.1:9092", 17)
    chosen = options([*shlex.split(str(kafka)), "--only", "send 1 KB", "start"])
    assert (chosen.running, chosen.only) == ([kafka], ["send 1 KB", "start"])
