"""`ottla produce` against a broker: what arrives, what is reported, and nothing written by a mistake."""

from __future__ import annotations

import base64
import json
import os
import shlex
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ottla
from ottla.cli.main import main
from ottla.client.connection.versions import INIT_PRODUCER_ID


class Outcome(NamedTuple):
    """The end of a command."""

    code: int
    out: str
    err: str


Ottla = Callable[..., Outcome]


@pytest.fixture(scope="module")
def broker() -> Iterator[ottla.Broker]:
    with ottla.Broker(num_partitions=3, auto_create_topics_enable=True, log_retention_ms=-1) as broker:
        yield broker


def write(descriptor: int, data: bytes) -> None:
    with suppress(BrokenPipeError), open(descriptor, "wb") as file:
        file.write(data)


@pytest.fixture
def ottla_(broker: ottla.Broker, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Ottla]:
    """Run a command with bytes as its standard input."""
    monkeypatch.setenv("OTTLA_BOOTSTRAP_SERVER", broker.address)

    def run(line: str, stdin: bytes = b"") -> Outcome:
        reading, writing = os.pipe()
        writer = threading.Thread(target=write, args=(writing, stdin))
        writer.start()
        with open(reading) as file:
            monkeypatch.setattr(sys, "stdin", file)
            try:
                code = main(shlex.split(line))
            except SystemExit as end:
                code = int(str(end.code))
        writer.join()
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    with ottla.Admin(broker.address) as admin:
        admin.create_topic("t", 1)
    yield run
    with ottla.Admin(broker.address) as admin:
        admin.delete_topics(*admin.list_topics())


def records(broker: ottla.Broker, topic: str = "t", *, committed: bool = True) -> list[ottla.ConsumerRecord]:
    with (
        ottla.Consumer(
            bootstrap_servers=broker.address, isolation_level="read_committed" if committed else "read_uncommitted"
        ) as consumer,
        ottla.Admin(broker.address) as admin,
    ):
        places = [ottla.TopicPartition(topic, index) for index in admin.describe_topics(topic)[topic].partitions]
        consumer.assign(places)
        consumer.seek_to_beginning()
        ends = consumer.end_offsets(places)
        found: list[ottla.ConsumerRecord] = []
        while any(consumer.position(place) < ends[place] for place in places):
            found += consumer.poll(100)
        return found


def values(broker: ottla.Broker, topic: str = "t") -> list[bytes | None]:
    return [record.value for record in records(broker, topic)]


def test_lines_are_records(ottla_: Ottla, broker: ottla.Broker, tmp_path: Path) -> None:
    assert ottla_("produce t -v", b"a\nb\n\nd") == (0, "t-0@0\nt-0@1\nt-0@2\nt-0@3\n", "")
    assert values(broker) == [b"a", b"b", b"", b"d"]
    file = tmp_path / "lines"
    file.write_bytes(b"e\0f\0")
    assert ottla_(f"produce t {file} -D '\\0' -z zstd --acks 1") == (0, "", "")
    assert ottla_("produce t - -D ''", b"g\nh\n") == (0, "", "")
    assert values(broker)[4:] == [b"e", b"f", b"g\nh\n"]
    assert ottla_("produce t") == (0, "", "")


def test_keys_headers_partitions_and_tombstones(ottla_: Ottla, broker: ottla.Broker) -> None:
    assert ottla_("topic create p -p 4").code == 0
    assert ottla_("produce p -K : -H a=1 -H b -H a= -p 3 -Z", b"k:v\nk:\n:w\n") == (0, "", "")
    found = records(broker, "p")
    assert [(record.partition, record.key, record.value) for record in found] == [(3, b"k", b"v"), (3, b"k", None), (3, None, b"w")]
    assert list(found[0].headers) == [("a", b"1"), ("b", None), ("a", b"")]
    assert ottla_("produce t -k fixed --null NULL", b"NULL\nx\n") == (0, "", "")
    assert [(record.key, record.value) for record in records(broker)] == [(b"fixed", None), (b"fixed", b"x")]


def test_keyed_lines_are_spread_over_partitions_and_lines_that_cannot_be_sent_are_listed(
    ottla_: Ottla, broker: ottla.Broker
) -> None:
    assert ottla_("topic create p -p 4").code == 0
    lines = [b"key%d:%d" % (number % 50, number) for number in range(2000)]
    lines[10], lines[1500] = b"no separator", b"k:" + b"x" * 2_000_000
    code, _, err = ottla_("produce p -K :", b"\n".join(lines))
    assert (code, [line.split(":")[0] for line in err.splitlines()]) == (1, ["line 11", "line 1501", "ottla"])
    assert "Delivered 1998 of 2000 lines" in err
    found = records(broker, "p")
    sent = [(*line.split(b":"),) for index, line in enumerate(lines) if index not in (10, 1500)]
    with ottla.Producer(broker.address) as producer:
        partitions = {key: producer.send("p", key=key).result().partition for key, _ in sent[:60]}
    for partition in range(4):
        own = [(record.key, record.value) for record in found if record.partition == partition]
        assert own == [pair for pair in sent if partitions[pair[0]] == partition]
    code, out, _ = ottla_("produce p -K : -v", b"\n".join(lines[:10]))
    assert [int(line.split("@")[0][2:]) for line in out.splitlines()] == [partitions[line.split(b":")[0]] for line in lines[:10]]


def test_batches_are_as_large_as_the_topic_accepts(ottla_: Ottla, broker: ottla.Broker) -> None:
    assert ottla_("topic create small -p 1 -c max.message.bytes=5000").code == 0
    lines = b"".join(b"%0100d\n" % number for number in range(1000))
    assert ottla_("produce small", lines) == (0, "", "")
    assert values(broker, "small") == lines.splitlines()


def test_json_lines_and_templates(ottla_: Ottla, broker: ottla.Broker) -> None:
    line = {
        "key": "k",
        "value": "v",
        "headers": {"h": "x"},
        "partition": 0,
        "timestamp": 1_700_000_000_000,
        "offset": 7,
        "topic": "u",
    }
    assert ottla_("produce t --json-lines --json", json.dumps(line).encode()).code == 0
    (record,) = records(broker)
    assert (record.key, record.value, list(record.headers), record.timestamp) == (b"k", b"v", [("h", b"x")], 1_700_000_000_000)
    assert ottla_(r"produce t -f '%t %d %k=%v\n'", b"t 1700000000001 a=b\nt 1700000000002 c=d\n") == (0, "", "")
    found = [(record.key, record.value, record.timestamp) for record in records(broker)[1:]]
    assert found == [(b"a", b"b", 1_700_000_000_001), (b"c", b"d", 1_700_000_000_002)]


def test_count_and_repeat_and_rate(ottla_: Ottla, broker: ottla.Broker, tmp_path: Path) -> None:
    assert ottla_("produce t -n 2", b"a\nb\nc\n") == (0, "", "")
    file = tmp_path / "lines"
    file.write_bytes(b"d\ne")
    assert ottla_(f"produce t {file} --repeat -n 5 --rate 1000") == (0, "", "")
    assert values(broker) == [b"a", b"b", b"d", b"e", b"d", b"e", b"d"]


def test_a_line_that_is_no_record_is_listed_and_the_others_are_written(ottla_: Ottla, broker: ottla.Broker) -> None:
    code, _, err = ottla_("produce t --json-lines", b'{"value":"a"}\n{\n[]\n{"value":"b"}\n{"value":"c","partition":9}\n')
    assert code == 1
    assert [line.split(":")[0] for line in err.splitlines()] == ["line 2", "line 3", "line 5", "ottla"]
    assert "Delivered 2 of 5 lines; the others are listed above." in err
    assert values(broker) == [b"a", b"b"]
    large = b"x" * 2_000_000
    code, _, err = ottla_("produce t", b"small\n" + large + b"\nlast\n")
    assert (code, "line 2: send(): MESSAGE_TOO_LARGE" in err) == (1, True)
    assert values(broker)[2:] == [b"small", b"last"]
    code, _, err = ottla_(r"produce t --json -f '%p %v\n'", b"0 a\nx b\n0 c\n")
    rows = [json.loads(line) for line in err.splitlines()]
    assert (code, rows[0]["line"], rows[1]["exit_code"]) == (1, 2, 1)
    assert values(broker)[4:] == [b"a"]


def test_a_transaction_writes_all_or_nothing(ottla_: Ottla, broker: ottla.Broker) -> None:
    assert ottla_("produce t --transactional -K :", b"k:a\nk:b\n") == (0, "", "")
    code, _, err = ottla_("produce t --transactional-id id -K :", b"k:c\nd\nk:e\n")
    assert (code, "Nothing was written" in err) == (1, True)
    code, _, err = ottla_(r"produce t --transactional -f '%p %v\n'", b"0 f\nx g\n")
    assert (code, "Nothing was written" in err) == (1, True)
    assert values(broker) == [b"a", b"b"]
    assert len(records(broker, committed=False)) > 2
    assert ottla_("produce t --transactional") == (0, "", "")


def test_a_missing_topic_is_created_on_demand_alone(ottla_: Ottla, broker: ottla.Broker) -> None:
    code, _, err = ottla_("produce nwe", b"a\n")
    assert (code, "`ottla topic create nwe`" in err) == (1, True)
    assert ottla_("topic list --names").out == "t\n"
    assert ottla_("produce new --create", b"a\n") == (0, "", "")
    assert ottla_("produce new --create", b"b\n") == (0, "", "")
    assert sorted(values(broker, "new"), key=str) == [b"a", b"b"]


@pytest.mark.parametrize(
    ("option", "sentence", "written"),
    [
        ("", "Interrupted: 2 records were written.", [b"a", b"b"]),
        ("--transactional", "Interrupted: the transaction is aborted: nothing was written.", []),
    ],
)
def test_ctrl_c_writes_what_was_read_or_aborts(
    option: str,
    sentence: str,
    written: list[bytes],
    broker: ottla.Broker,
    ottla_: Ottla,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    reading, writing = os.pipe()
    os.write(writing, b"a\nb\nincomplete")
    end = time.monotonic() + 30

    def interrupt() -> None:
        while len(records(broker, committed=False)) < 2 and time.monotonic() < end:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with open(reading) as file:
        monkeypatch.setattr(sys, "stdin", file)
        code = main(["produce", "t", "-v", *option.split()])
    thread.join()
    os.close(writing)
    assert (code, sentence in capsys.readouterr().err) == (130, True)
    assert values(broker) == written


def test_a_record_is_sent_when_its_line_is_complete(broker: ottla.Broker, ottla_: Ottla, monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    seen: list[bytes | None] = []

    def type_lines() -> None:
        for number in range(3):
            os.write(writing, b"%d\nhalf" % number)
            while len(seen) <= number:
                seen[:] = values(broker)
        os.close(writing)

    thread = threading.Thread(target=type_lines)
    thread.start()
    with open(reading) as file:
        monkeypatch.setattr(sys, "stdin", file)
        assert main(["produce", "t"]) == 0
    thread.join()
    assert seen == [b"0", b"half1", b"half2"]
    assert values(broker)[3:] == [b"half"]


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(
            st.none() | st.binary(),
            st.none() | st.binary(),
            st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary()), max_size=2),
        ),
        min_size=1,
        max_size=20,
    )
)
def test_any_bytes_arrive_as_they_are(
    ottla_: Ottla, broker: ottla.Broker, given_records: list[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]]
) -> None:
    def framed(data: bytes | None) -> bytes:
        return (-1 if data is None else len(data)).to_bytes(4, "big", signed=True) + (data or b"")

    def encoded(data: bytes | None) -> object:
        return None if data is None else {"base64": base64.b64encode(data).decode()}

    before = len(records(broker))
    binary = b"".join(
        framed(key) + framed(value) + len(headers).to_bytes(4, "big") + b"".join(framed(n.encode()) + framed(v) for n, v in headers)
        for key, value, headers in given_records
    )
    assert ottla_("produce t -f '%K{big32}%k%V{big32}%v%H{big32}%h{%K{big32}%k%V{big32}%v}'", binary) == (0, "", "")
    rows = [
        {
            "key": encoded(key),
            "value": encoded(value),
            "headers": [{"key": name, "value": encoded(data)} for name, data in headers],
        }
        for key, value, headers in given_records
    ]
    assert ottla_("produce t --json-lines", "\n".join(map(json.dumps, rows)).encode()) == (0, "", "")
    found = [(record.key, record.value, list(record.headers)) for record in records(broker)[before:]]
    assert found == given_records * 2


AVRO = '{"type": "record", "name": "R", "fields": [{"name": "n", "type": "int"}]}'


def test_values_are_encoded_by_a_schema(ottla_: Ottla, broker: ottla.Broker, tmp_path: Path) -> None:
    pytest.importorskip("fastavro")
    file = tmp_path / "r.avsc"
    file.write_text(AVRO)
    code, _, err = ottla_(f"produce t --schema {file}", b'{"n": 3}\n{"n": "x"}\n{"m": 1}\n{\n')
    assert (code, err.count("does not fit the schema"), "Delivered 1 of 4 lines" in err) == (1, 2, True)
    assert values(broker) == [b"\x06"]


MISTAKES = [
    ("produce", "the following arguments are required: TOPIC", 2),
    ("produce t -p x", "'x' is not a whole number from 0", 2),
    ("produce t -p 7", "has no partition 7", 2),
    ("produce t -n 0", "'0' is not a whole number above 0", 2),
    ("produce t --rate -1", "'-1' is not a number of records a second", 2),
    ("produce t -H =x", "'=x' is not like source=desk", 2),
    (r"produce t -D '\q'", "is no escape", 2),
    ("produce t -K ''", "the separator is empty", 2),
    ("produce t -f '%k%v'", "nothing divides the key", 2),
    ("produce t -f '%v' -D x", "-D does not go with -f", 2),
    ("produce t -f '%v' -K x", "not allowed with argument", 2),
    ("produce t -z brotli", "invalid choice: 'brotli'", 2),
    ("produce t --acks 2", "invalid choice: '2'", 2),
    ("produce t --acks 1 --transactional", "a transaction needs --acks all", 2),
    ("produce t --acks 0 -v", "-v needs offsets", 2),
    ("produce t --josn-lines", "did you mean --json-lines?", 2),
    ("produce t -X lingr.ms=5", "clients of commands have no setting lingr.ms", 2),
    ("produce t -X linger.ms=x", "linger.ms must be a whole number", 2),
    ("produce t nosuchfile", "Cannot read nosuchfile: No such file or directory", 1),
    ("produce t /", "Cannot read /: Is a directory", 1),
    ("produce t --repeat", "no beginning to return to", 2),
    ("produce t --schema x.txt", "name a file that ends in .avsc", 2),
    ("produce t --schema nosuch.avsc", "cannot read nosuch.avsc", 2),
    ("produce t --schema a.avsc --schema-registry http://localhost", "both give the schema", 2),
    ("produce t --schema-registry localhost:8081", "is not a URL", 2),
    ("produce t --schema-registry http://127.0.0.1:1", "does not answer", 1),
    ("produce 'no such'", "INVALID_TOPIC_EXCEPTION", 1),
    ("produce nosuch", "There is no topic nosuch", 1),
    ("produce t -b 127.0.0.1:1 -X default.api.timeout.ms=300", "127.0.0.1:1", 1),
    ("produce t --profile nosuch", "There is no profile nosuch", 2),
    ("produce ''", "'' is empty", 2),
    ("produce \udcff", "'\\udcff' is not UTF-8: correct the name", 2),
    ("produce 'a\nb' --create", "Topic a\\nb: INVALID_TOPIC_EXCEPTION", 1),
    (f"produce {'n' * 250} --create", "INVALID_TOPIC_EXCEPTION", 1),
    ("produce t a b", "unknown arguments: b", 2),
    ("produce t ''", "'' is empty", 2),
    ("produce t -n 1.5", "'1.5' is not a whole number above 0", 2),
    (f"produce t -n {'9' * 5000}", "is above 2147483647, the largest number", 2),
    ("produce t -p -1", "'-1' is not a whole number from 0 on", 2),
    ("produce t -p 99999999999", "'99999999999' is above 2147483647", 2),
    ("produce new --create -p 9", "create it with `ottla topic create new -p 10`", 1),
    ("produce new --create -X acks=7", "acks must be one of all, -1, 0, 1, not '7'", 2),
    ("produce new --create -X linger.ms=-1", "linger.ms must be a whole number of at least 0", 2),
    ("produce t --rate nan", "'nan' is not a number of records a second", 2),
    ("produce t --repeat -", "no beginning to return to", 2),
    ("produce t empty --repeat", "empty is empty or has no beginning", 2),
    ("produce t -Z --null x", "not allowed with argument", 2),
    ("produce t --transactional-id ''", "'' is empty", 2),
    ("produce t --transactional-id x --acks 0", "a transaction needs --acks all, not 0", 2),
    ("produce t -X acks=1 --transactional", "transactional.id needs acks='all'", 2),
    ("produce t -X enable.idempotence=true --acks 0", "enable.idempotence needs acks='all'", 2),
    ("produce t -X nope", "'nope' has no value: write -X NAME=VALUE.", 2),
    ("produce t -X group.id=x", "have no setting group.id", 2),
    ("produce t -X compression.type=brotli", "compression.type must be one of", 2),
    ("produce t -f ''", "it has neither %v nor %k", 2),
    ("produce t -f %z", "there is no %z", 2),
    ("produce t -f '%v{hex'", "is not closed: add }", 2),
    ("produce t -f '%v{x}'", "{x} is no form of a text", 2),
    ("produce t -f '%V{big99}%v'", "{big99} is no form of a number", 2),
    ("produce t -f '%h{%k=%v }'", "needs the number of headers before it", 2),
    (r"produce t -D '\x4'", "is no escape", 2),
    ("produce t --schema ''", "'' is empty", 2),
    ("produce t --schema empty.avsc", "empty.avsc is no schema of Avro", 2),
    ("produce t --schema half.avsc", "half.avsc is no schema of Avro (Unterminated string", 2),
    ("produce t --schema folder.avsc", "cannot read folder.avsc: Is a directory", 2),
    ("produce t --schema sparse.avsc", "sparse.avsc has more than", 2),
    ("produce t --schema-registry ''", "'' is not a URL", 2),
    ("produce t --schema-registry 'http://['", "is not a URL", 2),
    ("produce t --command-config sparse.avsc", "Cannot read sparse.avsc: it has more than", 2),
    ("produce t --json -p x", '"exit_code": 2', 2),
]


@pytest.mark.rows(25, seconds=0.1)
@pytest.mark.parametrize(("line", "sentence", "code"), MISTAKES)
def test_a_mistake_is_one_sentence_and_writes_nothing(
    line: str, sentence: str, code: int, ottla_: Ottla, broker: ottla.Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").touch()
    (tmp_path / "empty.avsc").touch()
    (tmp_path / "half.avsc").write_text('{"type": "record", "na')
    (tmp_path / "folder.avsc").mkdir()
    (tmp_path / "sparse.avsc").touch()
    os.truncate(tmp_path / "sparse.avsc", 10_000_000_000)
    found, out, err = ottla_(line, b"a\n")
    assert (found, out, err.count("\n"), sentence in err) == (code, "", 1, True), err
    assert values(broker) == []
    assert ottla_("topic list --names").out == "t\n"


WRONG_INPUT = [
    ("-K :", b"nosep\n", "line 1: it has no key separator ':'"),
    ("--json-lines", b'{"value": "a"', "it is not JSON (Expecting ',' delimiter"),
    ("--json-lines", b'{"value": "\xc3"}\n{"value": \xff}\n', "line 2: it is not JSON"),
    ("--json-lines", b"[" * 100_000, "it is not JSON (maximum recursion depth"),
    ("--json-lines", b'{"value": ' + b"9" * 5000 + b"}", "it is not JSON (Exceeds the limit"),
    ("--json-lines", b'"a"\n', "it is JSON, and no object"),
    ("--json-lines", b'{"nope": 1}\n', "records have no field 'nope'"),
    ("--json-lines", b'{"value": {"base64": "***"}}\n', "value is not base64: '***'"),
    ("--json-lines", b'{"value": "\\ud800"}\n', "value has half a surrogate pair"),
    ("--json-lines", b'{"headers": {"\\ud800": 1}}\n', "The name of a header cannot be written as UTF-8"),
    ("--json-lines", b'{"headers": [1]}\n', "headers are no object"),
    ("--json-lines", b'{"partition": -1}\n', "partition is -1"),
    ("--json-lines", b'{"partition": true}\n', "partition is true"),
    ("--json-lines", b'{"partition": 99999999999}\n', "has partitions 0 to 0, not 99999999999"),
    ("--json-lines", b'{"timestamp": 99999999999999999999}\n', "the timestamp '99999999999999999999' is not a time"),
    ("--json-lines", b'{"timestamp": "' + b"9" * 400 + b'w"}\n', "is not a time"),
    ("--json-lines", b'{"timestamp": "99999w"}\n', "the timestamp '99999w' is before 1970"),
    ("--json-lines", b'{"timestamp": 1e400}\n', "the timestamp 'inf' is not a time"),
    ("--json-lines", b'{"timestamp": 9223372036854775807}\n', "INVALID_TIMESTAMP"),
    ("-f '%V{big32}%v'", b"\xff\xff\xff\xf0abc", "the size of the value is -16"),
    ("-f '%V{big32}%v'", b"\x7f\xff\xff\xffabc", "the size of the value is 2147483647"),
    ("-f '%V{big32}%v'", b"\0\0\0\5abc", "the value has 5 bytes, and the input ends before"),
    ("-f '%V{big32}%v'", b"\0\0", "a number of 4 bytes is expected"),
    ("-f '%V %v'", b"99999999999999999999 abc", "the size of the value is 99999999999999999999"),
    ("-f '%H{big32}%h{%K{big32}%k}%v'", b"\x7f\xff\xff\xff\0\0\0\1a", "the number of headers is 2147483647"),
    (r"-f '%p %v\n'", b"x a\n", "a number is expected"),
    (r"-f '%p %v\n'", b"99 a\n", "has partitions 0 to 0, not 99"),
    (r"-f '%t %v\n'", b"\xff a\n", "the topic is not UTF-8"),
    (r"-f '%d{strftime[%F]} %v\n'", b"2026-99-99 a\n", "the timestamp '2026-99-99' does not have the form %F"),
    (r"-f '%v{hex}\n'", b"zz\n", "'zz' is not hexadecimal"),
    (r"-f '%v{json}\n'", b'{"a":\n', "is not JSON"),
    (r"-f '%k=%v\n'", b"half", "'=' is expected"),
    ("", b"x" * 3_000_000, "MESSAGE_TOO_LARGE"),
]


@pytest.mark.parametrize(("options", "stdin", "reason"), WRONG_INPUT)
def test_input_that_is_no_record_is_listed_with_its_line(
    options: str, stdin: bytes, reason: str, ottla_: Ottla, broker: ottla.Broker
) -> None:
    code, out, err = ottla_(f"produce t {options}", stdin)
    *lines, last = err.splitlines()
    assert (code, out, len(lines), reason in lines[-1]) == (1, "", 1, True), err
    assert last.startswith("ottla: Delivered ")
    assert ottla_(f"produce t --transactional {options}", stdin).code == 1
    assert len(values(broker)) == ("\\n" not in options and stdin.count(b"\n") == 2)


@pytest.mark.parametrize("release", ["0.10.0", "0.10.2", "2.8"])
def test_older_brokers_take_records_without_what_they_lack(release: str, ottla_: Ottla) -> None:
    with ottla.Broker(release=release, auto_create_topics_enable=True) as old, ottla.Admin(old.address) as admin:
        is_recent = release == "2.8"
        assert admin.supports_api(0)
        assert admin.supports_api(INIT_PRODUCER_ID) == is_recent
        code, _, err = ottla_(f"produce nwe -b {old.address}", b"a\n")
        assert (code, "There is no topic nwe" in err, admin.list_topics()) == (1, True, [])
        assert ottla_(f"produce t -b {old.address} --create -K : -p 0 -v", b"k:a\n:b\n") == (0, "t-0@0\nt-0@1\n", "")
        assert ottla_(f"produce t -b {old.address} --acks 1 -z gzip", b"c\n") == (0, "", "")
        assert ottla_(f"produce t -b {old.address} -H a=1", b"d\n").code == int(not is_recent)
        code, _, err = ottla_(f"produce t -b {old.address} --transactional", b"e\n")
        assert (code, "Transactions need Kafka 0.11" in err) == (int(not is_recent), not is_recent)
        found = {record.value for record in records(old, committed=is_recent)}
        assert found == {b"a", b"b", b"c", *([b"d", b"e"] if is_recent else [])}
