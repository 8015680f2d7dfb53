"""Every snippet of docs/from-*.md runs, and a pair of snippets has one effect: the same lines, topics, records and offsets."""

from __future__ import annotations

import gc
import io
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple

import pytest

import ottla
from tests.support.registry import PlayedRegistry
from tools.moving_pages import PAGES

for needed in ("confluent_kafka", "kafka", "aiokafka", "fastavro", "httpx", "authlib"):
    pytest.importorskip(needed)

PASSWORD = "secret"
LEAST_TASKS = 15


class Pair(NamedTuple):
    """A task of a page, with the snippet of another client and that of Ottla."""

    page: str
    task: str
    theirs: str
    ours: str


def read_pairs(page: Path) -> Iterator[Pair]:
    tasks = page.read_text(encoding="utf-8").partition("\n## Tasks\n")[2].partition("\n## ")[0]
    for section in tasks.split("\n### ")[1:]:
        blocks = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
        yield Pair(page.stem, section.partition("\n")[0], *blocks)


PAIRS = [pair for page in PAGES for pair in read_pairs(page)]


@contextmanager
def world(task: str) -> Iterator[tuple[ottla.Broker, dict[str, str]]]:
    """Start a broker with three records in the topic flights. Yield it, and the real addresses by those of the snippets."""
    guarded = "TLS" in task
    with ottla.Broker(users={"alice": PASSWORD} if guarded else None, tls=guarded) as broker:
        with ottla.Admin(**broker.client_settings()) as admin:
            admin.create_topic("flights", 1, configs={"retention.ms": -1})  # their times are of 1970
        with ottla.Producer(**broker.client_settings()) as producer:
            for number, (key, value) in enumerate([(b"JFK", b"12"), (b"JFK", b"0"), (b"LHR", b"47")], 1):
                producer.send("flights", value, key=key, timestamp_ms=1000 * number)
        names = {f"localhost:{9093 if guarded else 9092}": broker.address, '"authority.pem"': repr(broker.ca_file)}
        if "registry" not in task:
            yield broker, names
            return
        with PlayedRegistry() as registry:
            serving = Thread(target=registry.serve_forever, daemon=True)
            serving.start()
            yield broker, names | {"http://localhost:8081": registry.url}
            registry.shutdown()
            serving.join()


def run(snippet: str, task: str, directory: Path) -> tuple[str, dict[str, Any]]:
    """Run a snippet in a world of its own. Return what it prints, and what it leaves in the broker."""
    (directory / "password").write_text(PASSWORD)
    with world(task) as (broker, names):
        for shown, real in names.items():
            snippet = snippet.replace(shown, real)
        printed = io.StringIO()
        with redirect_stdout(printed), warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)  # open("password").read() of the snippets
            warnings.filterwarnings("ignore", ".*httpx", DeprecationWarning)
            exec(compile(snippet, task, "exec"), {"__name__": "__main__"})
            gc.collect()
        return printed.getvalue(), contents(broker)


def contents(broker: ottla.Broker) -> dict[str, Any]:
    """Return the topics with their records and settings, and the committed offsets of groups."""
    settings = broker.client_settings()
    reader = ottla.Consumer(**settings, auto_offset_reset="earliest", isolation_level="read_committed")
    with ottla.Admin(**settings) as admin, reader as consumer:
        topics = admin.describe_topics(*admin.list_topics())
        places = [(name, number) for name, topic in topics.items() for number in topic.partitions]
        consumer.assign(places)
        records = list(consumer.records(until=consumer.end_offsets(places)))
        return {
            "partitions": {name: len(topic.partitions) for name, topic in topics.items()},
            "records": sorted(((tuple(each.where), each.key, each.value, each.headers) for each in records), key=repr),
            "retention": {name: admin.describe_topic_configs(name)["retention.ms"].value for name in topics},
            "offsets": {
                group.group_id: {tuple(place): found.offset for place, found in offsets.items()}
                for group in admin.list_groups()
                if (offsets := admin.list_group_offsets(group.group_id))
            },
        }


@pytest.fixture(autouse=True)
def _in_a_directory_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.rows(12)
@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: f"{pair.page}-{pair.task.replace(' ', '_')}")
def test_both_snippets_of_a_task_have_one_effect(pair: Pair, tmp_path: Path) -> None:
    printed, left = run(pair.theirs, pair.task, tmp_path)
    assert run(pair.ours, pair.task, tmp_path) == (printed, left)
    assert printed or left["records"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_has_a_pair_for_each_common_task(page: Path) -> None:
    pairs = list(read_pairs(page))
    library = page.stem.removeprefix("from-").replace("-", "_").replace("kafka_python", "kafka")
    assert len(pairs) >= LEAST_TASKS
    assert not [pair.task for pair in pairs if library not in pair.theirs or "import ottla" not in pair.ours]
    assert "```py\n" not in page.read_text(encoding="utf-8")  # a snippet that no test runs
