"""`ottla bench` against a broker: figures that add up, topics left as they were, and mistakes in one sentence."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

import ottla
from ottla.cli.main import main
from tests.support.commands import Run


@pytest.fixture(scope="module")
def broker() -> Iterator[ottla.Broker]:
    with ottla.Broker(num_partitions=2, auto_create_topics_enable=True) as broker:
        yield broker


@pytest.fixture(autouse=True)
def no_topics_are_left(broker: ottla.Broker) -> Iterator[None]:
    yield
    with ottla.Admin(broker.address) as admin:
        admin.delete_topics(*admin.list_topics())


def topics(broker: ottla.Broker) -> list[str]:
    with ottla.Admin(broker.address) as admin:
        return admin.list_topics()


def row(out: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(out)
    return found


def test_what_is_produced_is_consumed_and_counted(ottla_: Run, broker: ottla.Broker) -> None:
    assert ottla_("topic create t -p 3")[0] == 0
    code, out, err = ottla_("bench produce t -n 5000 --size 30 --json")
    produced = row(out)
    assert (code, err, produced["records"], produced["bytes"]) == (0, "", 5000, 150_000)
    figures = [produced["latency_ms"][name] for name in ("p50", "p95", "p99", "p99.9", "max")]
    assert figures == sorted(figures)
    assert figures[0] > 0
    assert produced["records_per_second"] == pytest.approx(5000 / produced["seconds"], rel=0.1)
    code, out, err = ottla_("bench consume t --json")
    assert (code, err, row(out)["records"], row(out)["bytes"]) == (0, "", 5000, 150_000)
    code, out, _ = ottla_("bench consume t -n 1234 --json")
    assert (code, row(out)["records"], row(out)["bytes"]) == (0, 1234, 1234 * 30)
    with ottla.Consumer("t", bootstrap_servers=broker.address, auto_offset_reset="earliest") as consumer:
        assert len(consumer.poll(5000, 1)[0].value or b"") == 30


@pytest.mark.parametrize("given", ["--acks 1", "--acks 0", "-z lz4 --linger-ms 3 --batch-size 1000", "--rate 100000", "-X acks=1"])
def test_options_of_sending(ottla_: Run, given: str) -> None:
    code, out, _ = ottla_(f"bench produce t -n 300 --create --json {given}")
    assert (code, row(out)["records"]) == (0, 300)


def test_a_topic_is_deleted_only_if_the_run_has_created_it(ottla_: Run, broker: ottla.Broker) -> None:
    assert ottla_("bench produce new -n 10 --create --partitions 5")[0] == 0
    assert topics(broker) == []
    assert ottla_("topic create old")[0] == 0
    assert ottla_("bench produce old -n 10 --create")[0] == 0
    assert topics(broker) == ["old"]
    code, out, _ = ottla_("bench consume old")
    assert (code, out.splitlines()[0].startswith("10 records of old in ")) == (0, True)


def test_a_rate_is_kept(ottla_: Run) -> None:
    code, out, _ = ottla_("bench produce t -n 100 --rate 400 --create --json")
    assert (code, row(out)["records"]) == (0, 100)
    assert row(out)["seconds"] >= 0.245


def test_lines_of_progress_go_to_standard_error(ottla_: Run) -> None:
    code, out, err = ottla_("bench produce t -n 110 --rate 100 --create")
    assert (code, "records/s" in err, len(out.splitlines())) == (0, True, 3)


def test_transactions_and_an_empty_topic_end(ottla_: Run, broker: ottla.Broker) -> None:
    assert ottla_("topic create t")[0] == 0
    assert row(ottla_("bench consume t --json")[1])["records"] == 0
    with ottla.Producer(broker.address, transactional_id="x") as producer, producer.transaction():
        producer.send("t", b"value", key=b"key")
        producer.send("t", None)
    for level in ("read_committed", "read_uncommitted"):
        code, out, _ = ottla_(f"bench consume t --json -X isolation.level={level}")
        assert (code, row(out)["records"], row(out)["bytes"]) == (0, 2, 8)


def test_ctrl_c_reports_and_deletes_what_was_created(ottla_: Run, broker: ottla.Broker) -> None:
    def interrupt() -> None:
        while topics(broker) != ["t"]:
            time.sleep(0.01)
        time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    code, out, err = ottla_("bench produce t -n 1000000 --rate 1000 --create")
    thread.join()
    assert (code, "records of t in" in out, "Interrupted" in err) == (130, True, True)
    assert topics(broker) == []


@pytest.mark.parametrize("release", ["0.10.2", "2.8"])
def test_older_releases(release: str, capsys: pytest.CaptureFixture[str]) -> None:
    with ottla.Broker(release=release) as broker:
        with ottla.Admin(broker.address) as admin:
            admin.create_topic("t", 1, 1)
        for line in ("bench produce t -n 100", "bench consume t"):
            assert main([*line.split(), "-b", broker.address, "--json"]) == 0
            assert row(capsys.readouterr().out)["records"] == 100


def test_a_broker_that_dies_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    with ottla.Broker() as broker:
        address = broker.address
        with ottla.Admin(address) as admin:
            admin.create_topic("t")
        stopper = threading.Timer(0.3, broker.stop)
        stopper.start()
        given = ["-b", address, "-X", "delivery.timeout.ms=400", "-X", "request.timeout.ms=300", "-X", "linger.ms=0"]
        assert main(["bench", "produce", "t", "-n", "1000000", "--rate", "1000", "--json", *given]) == 1
        stopper.join()
    out, err = capsys.readouterr()
    assert row(out)["records"] < 1_000_000
    assert "of 1,000,000 records were written" in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("line", "code", "sentence"),
    [
        ("bench produce", 2, "required: TOPIC"),
        ("bench consume", 2, "required: TOPIC"),
        ("bench prodcue t", 2, "did you mean 'produce'?"),
        ("bench produce none", 1, "There is no topic none"),
        ("bench consume none", 1, "There is no topic none"),
        ("bench produce t -n 0", 2, "'0' is not a whole number from 1"),
        ("bench produce t -n many", 2, "'many' is not a whole number from 1"),
        ("bench produce t --size -1", 2, "--size"),
        ("bench produce t --size 99999999999", 2, "'99999999999' is above 2147483647"),
        ("bench produce t --rate 0", 2, "'0' is not a number of records"),
        ("bench produce t --rate nan", 2, "'nan' is not a number of records"),
        ("bench produce t --acks 2", 2, "invalid choice: '2'"),
        ("bench produce t -z brotli", 2, "invalid choice: 'brotli'"),
        ("bench produce t --linger-ms soon", 2, "'soon' is not a whole number from 0"),
        ("bench produce t --batch-size 0", 2, "'0' is not a whole number from 1"),
        ("bench produce t --partitions 3", 2, "add --create"),
        ("bench produce t --threads 3", 2, "unknown arguments: --threads 3"),
        ("bench produce t -X nope=1", 2, "have no setting nope"),
        ("bench produce t -X acks=7", 2, "acks"),
        ("bench produce a/b --create -n 1", 2, "'a/b' is not a topic's name"),
        ("bench produce t u", 2, "unknown arguments: u"),
        ("bench consume t --timeout 0", 2, "'0' is not a number of seconds"),
        ("bench consume t -n 1.5", 2, "'1.5' is not a whole number"),
        ("bench consume t --jsn", 2, "did you mean --json?"),
        ("bench produce t -n", 2, "expected one argument"),
        ("bench produce t -n 99999999999", 2, "'99999999999' is above 2147483647"),
        ("bench produce t -n 1e6", 2, "'1e6' is not a whole number"),
        ("bench produce t --size big", 2, "'big' is not a whole number"),
        ("bench produce t --rate -5", 2, "--rate"),
        ("bench produce t --rate fast", 2, "'fast' is not a number"),
        ("bench produce t --linger-ms -1", 2, "--linger-ms"),
        ("bench produce t --partitions 0 --create", 2, "'0' is not a whole number"),
        ("bench produce t --partitions 99999999 --create", 1, "t"),
        ("bench produce .. --create -n 1", 2, "'..' is not a topic's name"),
        (f"bench produce {'x' * 250} --create -n 1", 2, "is not a topic's name"),
        ("bench produce t --acks", 2, "expected one argument"),
        ("bench produce t -X acks", 2, "'acks' has no value: write -X NAME=VALUE."),
        ("bench produce t -X batch.size=x", 2, "batch.size must be a whole number, not 'x'"),
        ("bench produce t --command-config /none", 2, "Cannot read /none"),
        ("bench produce t --profile none", 2, "There is no profile none"),
        ("bench produce t --crate", 2, "did you mean --create?"),
        ("bench produce t -b nonsense:x", 2, "'nonsense:x' is not a host and port"),
        ("bench consume t -n 0", 2, "'0' is not a whole number"),
        ("bench consume t --timeout soon", 2, "'soon' is not a number"),
        ("bench consume t --timeout", 2, "expected one argument"),
        ("bench consume t -X fetch.min.bytes=x", 2, "fetch.min.bytes must be a whole number, not 'x'"),
        ("bench consume t --rate 5", 2, "unknown arguments: --rate 5"),
        ("bench consume a/b", 1, "There is no topic a/b that this user may describe"),
        ("bench consume t -b 127.0.0.1:1 -X default.api.timeout.ms=300", 1, "127.0.0.1:1"),
        ("bench produce t -b 127.0.0.1:1 -X default.api.timeout.ms=300", 1, "127.0.0.1:1"),
    ],
)
def test_a_mistake_is_one_sentence_and_changes_nothing(
    ottla_: Run, broker: ottla.Broker, line: str, code: int, sentence: str
) -> None:
    found, out, err = ottla_(line)
    assert (found, out) == (code, "")
    assert sentence in err
    assert err.startswith("ottla: ")
    assert err.count("\n") == 1
    assert topics(broker) == []


def test_records_that_do_not_come_or_are_too_large_are_an_error(ottla_: Run) -> None:
    assert ottla_("topic create t")[0] == 0
    code, out, err = ottla_("bench consume t -n 5 --timeout 0.3 --json")
    assert (code, row(out)["records"]) == (1, 0)
    assert "0 of 5 were read" in json.loads(err)["error"]
    code, out, err = ottla_("bench produce t -n 5 --size 2000000")
    assert (code, "0 of 5 records were written" in err, "max.request.size" in err) == (1, True, True)
