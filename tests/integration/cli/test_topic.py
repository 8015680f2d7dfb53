"""`ottla topic` against a broker: tables, JSON, exit codes, and nothing changed by a mistake."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

import ottla
from ottla.client.types import ConsumerGroupMetadata
from tests.support.commands import Run


@pytest.fixture(scope="module")
def broker() -> Iterator[ottla.Broker]:
    with ottla.Broker(num_partitions=2, log_retention_ms=-1) as broker:
        yield broker


@pytest.fixture(autouse=True)
def no_topics_are_left(broker: ottla.Broker) -> Iterator[None]:
    yield
    with ottla.Admin(broker.address) as admin:
        for name in admin.list_topics():
            admin.delete_topics(name)


def rows(out: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in out.splitlines()]


def fill(broker: ottla.Broker, topic: str, count: int, partition: int = 0) -> None:
    with ottla.Producer(broker.address) as producer:
        for number in range(count):
            producer.send(
                topic, b"%d" % number, key=b"k", partition=partition, headers=[("h", None)], timestamp_ms=1_700_000_000_000 + number
            )


def test_a_list_asks_once_for_the_sizes_of_all_topics(ottla_: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ottla_("topic create t u v")[0] == 0
    asked = []
    describe = ottla.Admin.describe_log_dirs

    def counted(admin: ottla.Admin, *arguments: Any) -> object:
        asked.append(arguments)
        return describe(admin, *arguments)

    monkeypatch.setattr(ottla.Admin, "describe_log_dirs", counted)
    assert [row["size"] for row in rows(ottla_("topic list --json")[1])] == [0, 0, 0]
    assert len(asked) == 1


def test_a_topic_is_created_listed_described_altered_and_deleted(ottla_: Run, broker: ottla.Broker) -> None:
    assert ottla_("topic list") == (0, "There are no topics: `ottla topic create NAME` creates one.\n", "")
    assert ottla_("topic create t u -p 3 -c retention.ms=9000000000000")[0] == 0
    fill(broker, "t", 10)
    code, out, _ = ottla_("topic list --json")
    assert code == 0
    (t, u) = rows(out)
    assert (t["topic"], t["partitions"], t["replicas"], t["records"], t["out_of_sync"]) == ("t", 3, 1, 10, 0)
    assert isinstance(t["size"], int)
    assert t["size"] > 0
    assert (u["topic"], u["records"], u["size"]) == ("u", 0, 0)
    code, out, _ = ottla_("topic describe t --json")
    (described,) = rows(out)
    assert described["configs"] == {"retention.ms": "9000000000000"}
    assert [part["end"] for part in described["partitions"]] == [10, 0, 0]  # type: ignore[attr-defined]  # a list of objects
    assert ottla_("topic alter t -p 4 -c retention.ms=8000000000000 -c segment.ms=7000 --delete-config segment.ms")[0] in (0, 1)
    assert ottla_("topic alter t -p 5 --delete-config retention.ms")[0] == 0
    assert "partitions  5" in ottla_("topic describe t")[1]
    assert ottla_("topic delete t --yes") == (0, "Topic t is deleted.\n", "")
    assert ottla_("topic list --names")[1] == "u\n"


def test_names_and_patterns_select(ottla_: Run) -> None:
    assert ottla_("topic create flights-1 flights-2 planes")[0] == 0
    assert ottla_("topic list 'flights-.*' --names")[1] == "flights-1\nflights-2\n"
    assert ottla_("topic list 'flights' --names")[1] == ""
    assert ottla_("topic delete --regex 'flights-.*' --dry-run --json")[1].count('"dry_run": true') == 2
    assert ottla_("topic delete --regex 'flights-.*' -y")[0] == 0
    assert ottla_("topic list --names")[1] == "planes\n"


def test_what_destroys_asks_first_and_changes_nothing_without_an_answer(
    ottla_: Run, broker: ottla.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ottla_("topic create t")[0] == 0
    fill(broker, "t", 5)
    for line in ("topic delete t", "topic trim t --before end"):
        code, _, err = ottla_(line)
        assert (code, "Add --yes" in err) == (2, True)

    class Terminal:
        def isatty(self) -> bool:
            return True

        def readline(self) -> str:
            return answer

    monkeypatch.setattr("sys.stdin", Terminal())
    answer = "no\n"
    for line in ("topic delete t", "topic trim t --before end"):
        code, _, err = ottla_(line)
        assert (code, "Type t to confirm" in err, "nothing was changed" in err) == (1, True, True)
    assert rows(ottla_("topic list --json")[1])[0]["records"] == 5
    answer = "t\n"
    assert ottla_("topic trim t --before 3")[0] == 0
    assert rows(ottla_("topic list --json")[1])[0]["records"] == 2
    assert ottla_("topic delete t")[0] == 0
    assert ottla_("topic list --names")[1] == ""


def test_offsets_are_found_by_time_and_trimmed_by_time(ottla_: Run, broker: ottla.Broker) -> None:
    assert ottla_("topic create t")[0] == 0
    fill(broker, "t", 10)
    found = rows(ottla_("topic offsets t --at 1700000000004 --json")[1])
    assert found == [
        {"partition": 0, "start": 0, "end": 10, "records": 10, "at": 4, "time": 1_700_000_000_004, "records_from_there": 6},
        {"partition": 1, "start": 0, "end": 0, "records": 0, "at": None, "time": None, "records_from_there": 0},
    ]
    assert "2023-11-14T22:13:20.004Z" in ottla_("topic offsets t --at 1700000000004 --utc")[1]
    assert rows(ottla_("topic trim t --before 1700000000004 --dry-run --json")[1])[0]["would_delete"] == 4
    assert rows(ottla_("topic trim t --before 1700000000004 --yes --json")[1])[0] == {
        "partition": 0, "start_before": 0, "start": 4, "deleted": 4,
    }  # fmt: skip
    assert rows(ottla_("topic trim t --before 2 --yes --json")[1])[0]["deleted"] == 0
    assert ottla_("topic trim t --before 2 --partition 7")[0] == 2
    behind = "ottla: Offset 11 is behind the end of t, 10: name a lower one, or end for all records.\n"
    assert ottla_("topic trim t --before 11 --yes") == (1, "", behind)
    assert ottla_("topic trim t --before 5 --partition 1 --yes")[0] == 1
    assert rows(ottla_("topic trim t --before 10 --yes --json")[1])[0]["deleted"] == 6


def test_a_copy_has_the_same_records(ottla_: Run, broker: ottla.Broker) -> None:
    assert ottla_("topic create t -p 3 -c retention.ms=-1 -c message.timestamp.type=CreateTime")[0] == 0
    for partition in (0, 2):
        fill(broker, "t", 100, partition)
    with ottla.Producer(broker.address, transactional_id="x") as producer:
        producer.begin_transaction()
        producer.send("t", b"aborted", partition=1).result(20)
        producer.abort_transaction()
    code, out, _ = ottla_("topic copy t c --json")
    assert (code, rows(out)[0]["records"]) == (0, 200)
    with ottla.Consumer(bootstrap_servers=broker.address, auto_offset_reset="earliest") as consumer:
        found = {}
        for topic in ("t", "c"):
            consumer.assign([(topic, 0), (topic, 2)])
            records = [record for _ in range(200) for record in consumer.poll(5000, 1)]
            found[topic] = sorted((r.partition, r.key, r.value, r.timestamp, tuple(r.headers)) for r in records)
    assert len(found["t"]) == 200
    assert found["t"] == found["c"]
    assert '"retention.ms": "-1"' in ottla_("topic describe c --json")[1]
    assert ottla_("topic copy t t")[0] == 2
    assert rows(ottla_("topic copy t c --json")[1])[0]["records"] == 0
    fill(broker, "t", 5, 2)
    would = rows(ottla_("topic copy t c --json --dry-run")[1])
    assert [(row["partition"], row["would_copy"]) for row in would] == [(0, 0), (1, 0), (2, 5)]
    assert rows(ottla_("topic copy t c --json")[1])[0]["records"] == 5
    assert rows(ottla_("topic copy t c --json --append")[1])[0]["records"] == 205
    assert ottla_("topic create small -p 1")[0] == 0
    assert "add some with `ottla topic alter small -p 3`" in ottla_("topic copy t small")[2]
    assert ottla_("topic copy t missing --no-create")[0] == 1
    assert "missing" not in ottla_("topic list --names")[1]


def test_a_copy_that_was_killed_continues_and_doubles_nothing(ottla_: Run, broker: ottla.Broker) -> None:
    assert ottla_("topic create t -p 1")[0] == 0
    fill(broker, "t", 10, 0)
    assert ottla_("topic copy t c")[0] == 0
    fill(broker, "t", 10, 0)
    group = "ottla-topic-copy.t.c"
    with ottla.Producer(broker.address, transactional_id=group) as killed:
        killed.begin_transaction()
        for _ in range(5):
            killed.send("c", b"of a transaction that nobody ends").result(20)
        killed.send_offsets({("c", 0): 15}, ConsumerGroupMetadata(group))
        killed.close(0)
        assert rows(ottla_("topic copy t c --json")[1])[0]["records"] == 10
    code, out, _ = ottla_("consume c -e")
    assert (code, out.count("\n"), "nobody" in out) == (0, 20, False)


def test_a_copy_of_a_topic_that_was_created_anew_and_into_foreign_records_is_refused(ottla_: Run, broker: ottla.Broker) -> None:
    assert ottla_("topic create t foreign -p 1")[0] == 0
    for topic in ("t", "foreign"):
        fill(broker, topic, 3, 0)
    assert ottla_("topic copy t c")[0] == 0
    assert "has records, of which none are of a copy" in ottla_("topic copy t foreign")[2]
    assert ottla_("topic delete t --yes")[0] == 0
    assert ottla_("topic create t -p 1")[0] == 0
    fill(broker, "t", 5, 0)
    assert "is another one than what was copied before" in ottla_("topic copy t c")[2]
    assert rows(ottla_("topic copy t c --append --json")[1])[0]["records"] == 5
    assert rows(ottla_("topic copy t c --json")[1])[0]["records"] == 0


def test_a_copy_within_a_cluster_that_has_no_transactions(ottla_: Run) -> None:
    with ottla.Broker(release="0.10.2", num_partitions=2, log_retention_ms=-1) as old:
        with ottla.Producer(old.address, enable_idempotence=False) as producer:
            producer.send("t", b"v", key=b"k", partition=1, timestamp_ms=1_700_000_000_000)
        code, out, err = ottla_(f"topic copy t c --json -b {old.address}")
        assert (code, err, [row["records"] for row in rows(out)]) == (0, "", [1])
        with ottla.Consumer(bootstrap_servers=old.address, auto_offset_reset="earliest") as consumer:
            consumer.assign([("c", 1)])
            (record,) = consumer.poll(5000)
        assert (record.key, record.value, record.timestamp) == (b"k", b"v", 1_700_000_000_000)
        assert "add --append" in ottla_(f"topic copy t c -b {old.address}")[2]


@pytest.mark.parametrize(
    ("line", "code", "sentence"),
    [
        ("topic create", 2, "required: NAME"),
        ("topic create t -p 0", 2, "'0' is not a whole number above 0"),
        ("topic create t -c x", 2, "'x' is not like retention.ms=86400000"),
        ("topic create t -c nope=1", 1, "nope"),
        ("topic create t -r 3", 1, "INVALID_REPLICATION_FACTOR"),
        ("topic create a/b", 1, "INVALID_TOPIC"),
        ("topic describe none", 1, "UNKNOWN_TOPIC_OR_PARTITION"),
        ("topic alter none -p 3", 1, "UNKNOWN_TOPIC_OR_PARTITION"),
        ("topic alter none", 2, "nothing to change"),
        ("topic delete", 2, "name topics, or give --regex"),
        ("topic delete --regex '(' ", 2, "is not a regular expression"),
        ("topic delete --regex none --yes", 1, "No topic's whole name matches 'none'"),
        ("topic delete none --yes", 1, "UNKNOWN_TOPIC_OR_PARTITION"),
        ("topic offsets none --at yesterday", 2, "'yesterday' is not a time"),
        ("topic trim none --before end --yes", 1, "UNKNOWN_TOPIC_OR_PARTITION"),
        ("topic list --rate 0", 2, "'0' is not a number of seconds"),
        ("topic copy none other", 1, "UNKNOWN_TOPIC_OR_PARTITION"),
        ("topic trim t --before start", 2, "'start' is not end, an offset or"),
        ("topic trim t --before=-10", 2, "'-10' is not end, an offset or"),
        ("topic trim t --before soon", 2, "'soon' is not end, an offset or"),
        ("topic lst", 2, "invalid choice: 'lst': did you mean 'list'?"),
        ("topic list a b", 2, "unknown arguments: b"),
        ("topic list '['", 2, "'[' is not a regular expression (unterminated character set at position 0): correct it"),
        (f"topic list '{'(' * 3000}{')' * 3000}'", 2, "is not a regular expression (maximum recursion depth"),
        ("topic list 'a{99999999999}'", 2, "is not a regular expression (the repetition number is too large)"),
        ("topic list --rate nan", 2, "'nan' is not a number of seconds"),
        ("topic list --json=1", 2, "ignored explicit argument '1'"),
        ("topic list -b ''", 2, "'' is empty: give a value, or leave the argument out"),
        ("topic list --profile ''", 2, "'' is empty"),
        ("topic list --command-config ''", 2, "'' is empty"),
        ("topic list -b ,", 2, "bootstrap.servers is empty"),
        ("topic list -b http://127.0.0.1:9092", 2, "'http://127.0.0.1:9092' is not a host and port"),
        ("topic list -b '[::1'", 2, "'[::1' is not a host and port"),
        ("topic list -b 127.0.0.1:70000", 2, "'127.0.0.1:70000' is not a host and port"),
        ("topic list -b 127.0.0.1:1 -X bootstrap.timeout.ms=1", 1, "No connection to 127.0.0.1:1: Connection refused"),
        ("topic list -b no.such.invalid:1 -X bootstrap.timeout.ms=1", 1, "No connection to no.such.invalid:1"),
        ("topic list --profile nobody", 2, "There is no profile nobody"),
        ("topic list --profile ../../etc", 2, "'../../etc' cannot name a profile"),
        ("topic list --command-config /none", 2, "Cannot read /none: No such file or directory"),
        ("topic list --command-config /", 2, "Cannot read /: Is a directory"),
        ("topic list --command-config /dev/zero", 2, "Cannot read /dev/zero: it has more than"),
        ("topic list -X a", 2, "'a' has no value: write -X NAME=VALUE."),
        ("topic list -X request.timeout.ms=soon", 2, "request.timeout.ms must be a whole number, not 'soon'"),
        ("topic list -X security.protocol=TLS", 2, "security.protocol must be one of PLAINTEXT, SSL"),
        ("topic list -X ssl.key.location=/none", 2, "Cannot read /none: No such file or directory"),
        ("topic create ''", 2, "'' is empty"),
        ("topic create \udcff", 2, "'\\udcff' is not UTF-8: correct the name"),
        ("topic create 'a\nb'", 1, "Topic a\\nb: INVALID_TOPIC_EXCEPTION"),
        ("topic create 'a\x1b[2Jb'", 1, "Topic a\\x1b[2Jb: INVALID_TOPIC_EXCEPTION"),
        (f"topic create {'n' * 250}", 1, "is longer than the max allowed length 249"),
        ("topic create ..", 1, "INVALID_TOPIC_EXCEPTION"),
        ("topic create x -p 1.5", 2, "'1.5' is not a whole number above 0"),
        ("topic create x -p ٣", 2, "'٣' is not a whole number above 0"),
        ("topic create x -p 2147483648", 2, "'2147483648' is above 2147483647, the largest number"),
        (f"topic create x -p {'9' * 5000}", 2, "is above 2147483647, the largest number"),
        ("topic create x -p 200001", 1, "POLICY_VIOLATION"),
        ("topic create x -r 40000", 2, "'40000' is above 32767, the largest number"),
        ("topic create x -c =1", 2, "'=1' is not like retention.ms=86400000"),
        ("topic create x -c retention.ms=soon", 1, "INVALID_CONFIG"),
        ("topic create x -c retention.ms=99999999999999999999", 1, "INVALID_CONFIG"),
        ("topic create x --if-not-exist", 2, "did you mean --if-not-exists?"),
        ("topic create x --dry-run -c nope=1", 1, "nope"),
        ("topic create x -c retention.ms=1 --json -p many", 2, '"exit_code": 2'),
    ],
)
def test_a_mistake_is_one_sentence_and_changes_nothing(ottla_: Run, line: str, code: int, sentence: str) -> None:
    found, out, err = ottla_(line)
    assert (found, out) == (code, "")
    assert sentence in err
    assert err.startswith(("ottla: ", '{"error": '))
    assert err.count("\n") == 1
    assert ottla_("topic list --names")[1] == ""


@pytest.mark.parametrize(
    ("line", "code", "sentence"),
    [
        ("topic create t", 1, "TOPIC_ALREADY_EXISTS"),
        ("topic create t --dry-run", 1, "TOPIC_ALREADY_EXISTS"),
        ("topic describe t none", 1, "Topic none: UNKNOWN_TOPIC_OR_PARTITION"),
        ("topic alter t", 2, "nothing to change"),
        ("topic alter t -p 1", 1, "Topic t has 2 partitions, and -p 1 is not more: add some."),
        ("topic alter t -p 2 --dry-run", 1, "and -p 2 is not more"),
        ("topic alter t -p 1 -c retention.ms=1000", 1, "and -p 1 is not more"),
        ("topic alter t -p 5 -c nope=1", 1, "nope"),
        ("topic alter t -p 5 -c segment.bytes=many", 1, "segment.bytes"),
        ("topic alter t -c retention.ms=1 --delete-config retention.ms", 1, "give retention.ms once"),
        ("topic alter t u -p 5", 2, "unknown arguments: u"),
        ("topic delete t", 2, "Add --yes, since there is no terminal to confirm it."),
        ("topic delete t none --yes", 1, "Topic none: UNKNOWN_TOPIC_OR_PARTITION"),
        ("topic delete t --regex t --yes", 2, "name topics, or give --regex"),
        ("topic delete --regex '' --yes", 1, "No topic's whole name matches ''"),
        ("topic offsets t --at 1960-01-01", 2, "'1960-01-01' is before 1970"),
        ("topic offsets t --at 99999w", 2, "'99999w' is before 1970"),
        (f"topic offsets t --at {'9' * 400}w", 2, "is not a time, such as 2h (ago)"),
        ("topic offsets t --at 2026-02-30", 2, "'2026-02-30' is not a time"),
        ("topic trim t --before 1", 2, "This deletes 1 records of topic t. Add --yes"),
        ("topic trim t --before 1 --partition x", 2, "'x' is not a whole number from 0 on"),
        ("topic trim t --before 1 --partition 2 --yes", 2, "Topic t has no partition 2"),
        ("topic trim t --before 99999999999999999999 --yes", 2, "is not end, an offset or a time"),
        ("topic copy t t", 2, "FROM and INTO are one topic"),
        ("topic copy t ''", 2, "'' is empty"),
        ("topic copy t 'a b'", 2, "'a b' is not a topic's name"),
        ("topic copy t u --no-create", 1, "Topic u: UNKNOWN_TOPIC_OR_PARTITION"),
        ("topic copy t u --to nobody", 2, "There is no profile nobody"),
        ("topic copy t u -X acks=7", 2, "acks must be one of all"),
    ],
)
def test_a_mistake_leaves_a_topic_as_it_is(ottla_: Run, broker: ottla.Broker, line: str, code: int, sentence: str) -> None:
    assert ottla_("topic create t -p 2")[0] == 0
    fill(broker, "t", 3)
    before = ottla_("topic describe t --json")
    found, out, err = ottla_(line)
    assert (found, out, err.count("\n"), sentence in err) == (code, "", 1, True), err
    assert ottla_("topic describe t --json") == before
    assert ottla_("topic list --names")[1] == "t\n"
