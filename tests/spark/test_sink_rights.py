"""The sink needs the ACLs of the table in `docs/exactly-once.md`: all of them are enough, and none can be left out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")

import ottla  # noqa: E402  # what needs pyarrow comes after the look for it
from ottla import NewTopic  # noqa: E402  # as above
from ottla.client.admin.acls import AclRule  # noqa: E402  # as above
from ottla.errors import KafkaError  # noqa: E402  # as above
from ottla.once.names import Work  # noqa: E402  # as above
from ottla.spark.exactly_once.commits import OnceCommitter  # noqa: E402  # as above
from ottla.spark.exactly_once.tasks import OnceWriter  # noqa: E402  # as above
from ottla.spark.options import write_options  # noqa: E402  # as above

PAGE = Path(__file__).parents[2] / "docs" / "exactly-once.md"
TABLE = [[cell.strip(" `") for cell in line.split("|")[1:-1]] for line in PAGE.read_text().splitlines() if line.startswith("|")]
RULES = [cells[:4] for cells in TABLE if len(cells) == 5 and cells[0] not in ("operation", "---")]
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


@pytest.fixture(scope="module")
def secured() -> Iterator[ottla.Broker]:
    users = dict.fromkeys(("root", "all", *(f"lacks{place}" for place in range(len(RULES)))), "secret")
    with ottla.Broker(users=users, authorizer_class_name=AUTHORIZER, super_users="User:root") as broker:
        yield broker


def use(broker: ottla.Broker, user: str, topic: str, rules: list[list[str]]) -> list[bytes | None]:
    """Write two batches with these rights, clear away what a dead run left, and find a batch written; return what is there."""
    decisions = f"decisions-{user}"
    named = {"TOPIC": topic, "ottla-decisions": decisions}
    with ottla.Admin(**broker.client_settings(user="root")) as admin:
        admin.create_topics([NewTopic(topic, 1)])
        admin.create_acls(
            [AclRule(f"User:{user}", operation, kind, named.get(name, name), pattern) for operation, kind, name, pattern in rules]
        )
    options = write_options({"topic": topic, "decisionTopic": decisions, **broker.client_settings("spark", user=user)})
    opened: list[Any] = []
    try:
        dead, worker = OnceWriter(options, Work("query", "dead", 0)), OnceWriter(options, Work("query", "run", 0))
        committer, later = OnceCommitter(options, "query"), OnceCommitter(options, "query")
        opened += [dead, worker, committer, later]
        dead.write(Work("query", "dead", 0), [pa.record_batch({"value": [b"dead"]})], recorded=False)
        for batch_id in range(2):
            work = Work("query", "run", batch_id)
            result = worker.write(work, [pa.record_batch({"value": [b"%d" % batch_id]})], recorded=True)
            assert result.transaction is not None
            committer.commit(work, [result.transaction], found_decided=False, recorded=True)
        later.commit(Work("query", "run2", 1), [], found_decided=True, recorded=True)
    finally:
        for each in opened:
            each.close()
    with ottla.Admin(**broker.client_settings(user="root")) as admin:
        assert not admin.list_transactions(states=["Ongoing"])
    settings = broker.client_settings(user="root")
    with ottla.Consumer(topic, auto_offset_reset="earliest", isolation_level="read_committed", **settings) as reader:
        return [record.value for record in reader.records(timeout_ms=500)]


def test_the_table_is_enough(secured: ottla.Broker) -> None:
    assert len(RULES) == 5
    assert use(secured, "all", "flights", RULES) == [b"0", b"1"]


@pytest.mark.parametrize("place", range(len(RULES)))
def test_each_row_of_the_table_is_needed(secured: ottla.Broker, place: int) -> None:
    with pytest.raises(KafkaError, match="AUTHORIZATION_FAILED"):
        use(secured, f"lacks{place}", f"flights{place}", [each for at, each in enumerate(RULES) if at != place])
