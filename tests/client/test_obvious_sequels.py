"""The next call at once: after a close, a refusal, an abort, an unsubscribe, a fork, and from another thread."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.testing.process import BrokerProcess
from tests.client.test_producer_consumer import fill, reader
from tests.support.peers import Peer
from tests.support.waiting import eventually

Unique = Callable[[str], str]


def test_a_closed_producer_refuses_what_follows_and_closes_again(broker: Peer, topic: str) -> None:
    producer = ottla.Producer(broker.address)
    producer.send(topic, b"v").result(20)
    producer.close()
    calls: list[Callable[[], object]] = [
        lambda: producer.send(topic, b"v"),
        lambda: producer.send("unknown", b"v"),
        producer.flush,
        lambda: producer.partitions_for(topic),
    ]
    for call in calls:
        with pytest.raises(ottla.Closed):
            call()
    producer.close()


def test_transactions_follow_each_other_at_once_whichever_way_they_end(broker: Peer, topic: str, unique: Unique) -> None:
    with ottla.Producer(broker.address, transactional_id=unique("sequel")) as producer:
        for call in (producer.commit_transaction, producer.abort_transaction):
            with pytest.raises(ottla.TransactionError, match="init_transactions"):
                call()
        for number in range(10):
            for end in (producer.commit_transaction, producer.abort_transaction):
                producer.begin_transaction()
                with pytest.raises(ottla.TransactionError, match="a transaction is open"):
                    producer.begin_transaction()
                producer.send(topic, b"%d" % number, partition=0)
                end()
                for again in (producer.commit_transaction, producer.abort_transaction):
                    with pytest.raises(ottla.TransactionError, match="no transaction is open"):
                        again()
    with reader(broker, isolation_level="read_committed") as consumer:
        consumer.assign([(topic, 0)])
        assert [record.value for record in consumer.records(1_000)] == [b"%d" % number for number in range(10)]


def test_threads_that_end_one_transaction_end_it_once(broker: Peer, topic: str, unique: Unique) -> None:
    with ottla.Producer(broker.address, transactional_id=unique("sequel")) as producer:
        producer.begin_transaction()
        producer.send(topic, b"v")
        refused: list[ottla.TransactionError] = []

        def commit() -> None:
            try:
                producer.commit_transaction()
            except ottla.TransactionError as error:
                refused.append(error)

        threads = [threading.Thread(target=commit) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        assert not any(thread.is_alive() for thread in threads)
        assert len(refused) == 3
        with producer.transaction():
            producer.send(topic, b"w")


def test_an_unsubscribed_consumer_polls_nothing_and_subscribes_again(broker: Peer, topic: str, unique: Unique) -> None:
    fill(broker, topic, 3)
    with reader(broker, topic, group_id=unique("group")) as consumer:
        eventually(lambda: consumer.poll(100), what="records")
        consumer.unsubscribe()
        assert consumer.poll(0) == []
        consumer.commit()
        consumer.unsubscribe()
        consumer.subscribe(topic)
        fill(broker, topic, 3)
        assert eventually(lambda: consumer.poll(100), what="records once more")


@pytest.mark.parametrize("wait", [lambda consumer: consumer.poll(60_000), list], ids=["poll", "iteration"])
def test_a_consumer_that_another_thread_closes_waits_no_longer(broker: Peer, topic: str, wait: Callable[[Any], object]) -> None:
    consumer = reader(broker, topic)
    closing = threading.Timer(0.2, consumer.close)
    closing.start()
    with pytest.raises(ottla.Closed):
        wait(consumer)
    closing.join(20)
    assert not closing.is_alive()


def test_a_subscription_that_failed_leaves_the_one_before(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data") as process:
        settings: Any = {"auto_offset_reset": "earliest", "metadata_max_age_ms": 50, "request_timeout_ms": 500}
        with (
            ottla.Producer(process.address) as producer,
            ottla.Consumer("t", bootstrap_servers=process.address, default_api_timeout_ms=500, **settings) as consumer,
        ):
            producer.send("other", b"v").result(20)
            process.pause()
            try:
                with pytest.raises(ottla.TimedOut):
                    consumer.subscribe(pattern="other")
            finally:
                process.resume()
            producer.send("t", b"1").result(20)
            assert [record.value for record in eventually(lambda: consumer.poll(100), what="the record")] == [b"1"]
            consumer.poll(300)  # metadata is fetched meanwhile, by which a pattern would take effect
            assert consumer.subscription() == {"t"}


def test_a_forked_child_is_refused_and_its_parent_goes_on() -> None:
    program = """
import os, ottla
with ottla.Broker() as broker, ottla.Producer(broker.address) as producer, ottla.Admin(broker.address) as admin:
    producer.send("t", b"1").result(20)
    consumer = ottla.Consumer("t", bootstrap_servers=broker.address)
    child = os.fork()
    if not child:
        refused = 0
        for call in (lambda: producer.send("t", b"2"), lambda: producer.send("unknown", b"2"), producer.flush):
            try:
                call()
            except ottla.Closed:
                refused += 1
        for each in (producer, admin, consumer):
            each.close()
        os._exit(refused)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), producer.send("t", b"3").result(20).offset)
    assert admin.list_topics() == ["t"]
    consumer.close()
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.split() == ["3", "1"], done.stderr
