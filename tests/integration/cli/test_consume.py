"""`ottla consume` against a broker: positions, ends, formats, groups, transactions, and processes that are interrupted."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import pytest

import ottla
from ottla.cli.main import main
from tests.support.commands import Run, exit_code

T0 = 1_700_000_000_000


@pytest.fixture(scope="module")
def broker() -> Iterator[ottla.Broker]:
    with ottla.Broker(num_partitions=1, log_retention_ms=-1, group_initial_rebalance_delay_ms=0) as broker:
        with ottla.Producer(broker.address) as producer:
            for number in range(20):
                headers = [("h", b"%d" % number), ("null", None)]
                value = b'{"n": %d}' % number
                producer.send("numbers", value, key=b"k%d" % (number % 3), headers=headers, timestamp_ms=T0 + 1000 * number)
            producer.send("odd", None, key=b"gone", timestamp_ms=T0)
            producer.send("odd", b"\xff\0", key=None, timestamp_ms=T0)
            producer.send("words", "grün".encode())
            producer.send("deep", b"[" * 900 + b"]" * 900, timestamp_ms=T0)
        with ottla.Admin(broker.address) as admin:
            admin.create_topic("two", 2)
            admin.create_topic("empty", 1)
        with ottla.Producer(broker.address) as producer:
            for number in range(6):
                producer.send("two", b"%d" % number, partition=number % 2)
        yield broker


@pytest.fixture
def ottla_(broker: ottla.Broker, capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run lines whose output may have any bytes."""
    monkeypatch.setenv("OTTLA_BOOTSTRAP_SERVER", broker.address)
    monkeypatch.setattr("sys.stdin", None)

    def run(line: str) -> tuple[int, str, str]:
        code = exit_code(line)
        out, err = capsysbinary.readouterr()
        return code, out.decode(errors="surrogateescape"), err.decode()

    return run


def numbers(out: str) -> list[int]:
    return [json.loads(line)["n"] for line in out.splitlines()]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("-e", range(20)),
        ("-n 3", range(3)),
        ("-n 0", range(0)),
        ("-e -o start", range(20)),
        ("-e -o end", range(0)),
        ("-e -o -5", range(15, 20)),
        ("-e -o -500", range(20)),
        ("-e -o +18", range(18, 20)),
        ("-e -o 7", range(7, 20)),
        ("-e -o 700", range(0)),
        (f"-e -o @{T0 + 4000}", range(4, 20)),
        (f"-e -o @{T0 + 4001}", range(5, 20)),
        ("-e -o @2023-11-14T22:13:30Z", range(10, 20)),
        ("-e -o @1h", range(0)),
        ("-o 5 --until 8", range(5, 8)),
        (f"--until @{T0 + 3000}", range(3)),
        ("--until -18", range(2)),
        ("-o 5:8", range(5, 8)),
        ("-o :end", range(20)),
        (f"-o @{T0 + 3000}:5s", range(3, 8)),
        (f"-o s@{T0 + 3000} -o e@{T0 + 5000}", range(3, 5)),
        ("--until end", range(20)),
        ("--until start", range(0)),
        ("-e -o 12 --until 3", range(0)),
        ("-F -n 4", range(10, 14)),
        ("-e -p 0 -o 18", range(18, 20)),
        ("-e --filter 'value.n > 16'", range(17, 20)),
        ("-n 2 --filter 'value.n > 10 and key == \"k1\"'", range(13, 19, 3)),
        (f"-e --filter 'timestamp >= {T0} + 18000'", range(18, 20)),
        ("-e --grep '\"n\": 1}'", range(1, 2)),
        ("-e --grep 'k2' --filter 'offset < 6'", range(2, 6, 3)),
        ("-e --value-format json", range(20)),
    ],
)
def test_positions_ends_and_conditions_choose_records(ottla_: Run, line: str, expected: range) -> None:
    code, out, err = ottla_(f"consume numbers {line}")
    assert (code, numbers(out), err) == (0, list(expected), "")


@pytest.mark.parametrize(
    ("regex", "found"),
    [
        ("gr.n", True),
        ("(?i)^GRÜN$", True),
        ("(?u)n", True),
        ("\\u00fc", True),
        ("[äö]", False),
        ("^.{4}$", True),
        ("\udcff", False),
    ],
)
def test_regular_expressions_search_characters_and_not_bytes(ottla_: Run, regex: str, found: bool) -> None:
    assert ottla_(f"consume words -e --grep {shlex.quote(regex)}") == (0, "grün\n" * found, "")


def test_bytes_that_are_no_text_can_be_searched(ottla_: Run) -> None:
    assert ottla_("consume odd -e --grep '\udcff' --value-format hex") == (0, "ff00\n", "")


def test_sizes_instead_of_values_and_packed_numbers(ottla_: Run) -> None:
    found = json.loads(ottla_("consume numbers -n 1 --meta-only")[1])
    assert (found["value_size"], found["key"], "value" in found) == (8, "k0", False)
    assert ottla_("consume numbers -n 1 --value-format 'unpack[ccB]' --key-format 'unpack[cs$]' -K :")[1] == 'k0:{"110\n'
    assert "unpack has no letter 'z'" in ottla_("consume numbers --value-format 'unpack[z]'")[2]
    assert "did you mean 'json'" in ottla_("consume numbers --value-format jsn")[2]
    assert "both end the reading" in ottla_("consume numbers -o 5:8 --until 9")[2]


def test_templates_delimiters_and_nulls(ottla_: Run) -> None:
    assert ottla_("consume numbers -n 2 -f '%t %p %o %k %i %h{%k=%v;}\\n'")[1] == (
        "numbers 0 0 k0 1 h=0;null=;\nnumbers 0 1 k1 2 h=1;null=;\n"
    )
    assert ottla_("consume numbers -n 2 -K : -D '|'")[1] == 'k0:{"n": 0}|k1:{"n": 1}|'
    assert ottla_("consume numbers -n 1 -f '%d{strftime[%F %T]} %a{compression} %[ %]' --utc")[1] == (
        "2023-11-14 22:13:20 none 0 20"
    )
    assert ottla_("consume odd -e -K = -Z NULL")[1] == "gone=NULL\nNULL=\udcff\0\n"
    assert ottla_("consume odd -e --value-format hex")[1] == "\nff00\n"
    assert ottla_("consume odd -e --value-format base64 -f '%v,'")[1] == ",/wA=,"


def test_json_has_all_of_a_record(ottla_: Run) -> None:
    code, out, _ = ottla_("consume numbers odd -e --json --filter 'offset < 1 or topic == \"odd\"'")
    assert code == 0
    found = sorted((json.loads(line) for line in out.splitlines()), key=lambda each: (each["topic"], each["offset"]))
    common = {"partition": 0, "timestamp": T0}
    assert found == [
        {**common, "topic": "numbers", "offset": 0, "key": "k0", "value": '{"n": 0}', "headers": [
            {"key": "h", "value": "0"}, {"key": "null", "value": None}
        ]},
        {**common, "topic": "odd", "offset": 0, "key": "gone", "value": None, "headers": []},
        {**common, "topic": "odd", "offset": 1, "key": None, "value": {"base64": "/wA="}, "headers": []},
    ]  # fmt: skip
    assert json.loads(ottla_("consume numbers -n 1 --json --value-format json")[1])["value"] == {"n": 0}


def test_several_topics_patterns_and_partitions(ottla_: Run) -> None:
    assert sorted(ottla_("consume two empty -e")[1].split()) == list("012345")
    assert ottla_("consume two -e -p 1")[1].split() == list("135")
    assert sorted(ottla_("consume two -e -p 0,1 -o -1")[1].split()) == ["4", "5"]
    assert sorted(ottla_("consume -r 'tw.' 'emp.*' -e")[1].split()) == list("012345")
    code, out, err = ottla_("consume -r 'no-.*' -e")
    assert (code, out, "No topic matches" in err) == (1, "", True)


def test_the_last_value_of_each_key(ottla_: Run, broker: ottla.Broker) -> None:
    assert ottla_("consume numbers --group-by-key -f '%k=%o '") == (0, "k2=17 k0=18 k1=19 ", "")
    with ottla.Producer(broker.address) as producer:
        for key, value in ((b"a", b"1"), (b"b", b"2"), (b"a", None), (b"b", b"3")):
            producer.send("table", value, key=key)
    assert ottla_("consume table --group-by-key -K =")[1] == "b=3\n"
    assert ottla_("consume table --group-by-key -K = -n 2")[1] == "a=1\nb=2\n"
    assert ottla_("consume table --group-by-key -K = -g last -n 2 -X max.poll.records=1")[1] == "a=1\nb=2\n"
    assert ottla_("consume table -K = -g last -e")[1] == "a=\nb=3\n"


def test_a_group_continues_after_what_was_printed(ottla_: Run, broker: ottla.Broker) -> None:
    assert numbers(ottla_("consume numbers -g g1 -n 3")[1]) == [0, 1, 2]
    assert numbers(ottla_("consume numbers -g g1 -n 2")[1]) == [3, 4]
    assert numbers(ottla_("consume numbers -g g1 --until 8")[1]) == [5, 6, 7]
    assert numbers(ottla_("consume numbers -g g1 -e --filter 'value.n == 19'")[1]) == [19]
    assert ottla_("consume numbers -g g1 -e") == (0, "", "")
    assert ottla_("consume numbers -g g1 --until 8") == (0, "", "")
    assert ottla_("consume numbers -g g2 -o end -e") == (0, "", "")
    with ottla.Admin(broker.address) as admin:
        committed = admin.list_group_offsets("g1")
        assert {where.topic: found.offset for where, found in committed.items()} == {"numbers": 20}


def send_and_abort(producer: ottla.Producer) -> None:
    with producer.transaction():
        producer.send("transactions", b"void").result()
        raise LookupError


def test_transactions_are_isolated_and_their_markers_printed(ottla_: Run, broker: ottla.Broker) -> None:
    with ottla.Producer(broker.address, transactional_id="tx") as producer:
        with producer.transaction():
            producer.send("transactions", b"kept")
        with pytest.raises(LookupError):
            send_and_abort(producer)
    assert ottla_("consume transactions -e")[1] == "kept\n"
    assert ottla_("consume transactions -e --isolation uncommitted")[1] == "kept\nvoid\n"
    assert ottla_("consume transactions -e --print-control -f '%o %v %a{control-bit}%a{transactional-bit}\\n'")[1] == (
        "0 kept 01\n1 COMMIT 11\n3 ABORT 11\n"
    )
    marker = json.loads(ottla_("consume transactions -e --print-control --json -o 1 -n 1")[1])
    assert (marker["value"], marker["control"], marker["key"], marker["producer_epoch"] >= 0) == ("COMMIT", True, None, True)


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        ("", 2, "TOPIC"),
        ("numbers -o yesterday", 2, "'yesterday' is not start"),
        ("numbers -o @noon", 2, "'noon' is not a time"),
        ("numbers -o -x", 2, ""),
        ("numbers --until", 2, "--until"),
        ("numbers -n -1", 2, ""),
        ("numbers -n many", 2, "'many' is not a whole number"),
        ("numbers -p x", 2, "'x' is not a whole number from 0 on"),
        ("numbers -f '%z'", 2, "there is no %z"),
        ("numbers -D '\\q'", 2, "template of -D or -K"),
        ("numbers --filter 'value.a ='", 2, "--filter"),
        ("numbers --filter 'open(1)'", 2, "no function"),
        ("numbers --grep '('", 2, "is not a regular expression"),
        ("numbers --json -f %v", 2, "two formats"),
        ("numbers -F -e", 2, "without an end"),
        ("numbers -F --group-by-key", 2, "--group-by-key"),
        ("numbers -g g -p 0", 2, "leave out -p or -g"),
        ("numbers -g g -o 5", 2, "With -g"),
        ("numbers -r -p 0", 2, "-r or -p"),
        ("numbers -r -g g '('", 2, ""),
        ("numbers --value-format yaml", 2, "'yaml' is no format: choose from auto"),
        ("numbers --value-format avro", 2, "need their schema"),
        ("numbers --schema /no/such.avsc", 2, "--schema: cannot read /no/such.avsc"),
        ("numbers --isolation none", 2, "invalid choice"),
        ("numbers -X no.such=1", 2, "no setting no.such"),
        ("numbers --formt %v", 2, "did you mean --format"),
        ("numbers -e -p 7", 1, "numbers-7"),
        ("odd -e --value-format json", 1, "value of odd-0 at offset 1 cannot be decoded: it is no JSON"),
        ("odd -e --value-format msgpack", 1, "it is no MessagePack"),
        ("''", 2, "'' is empty"),
        ("\udcff", 2, "'\\udcff' is not UTF-8"),
        ("a/b -e", 2, "'a/b' is not a topic's name"),
        (f"{'n' * 250} -e", 2, "is not a topic's name"),
        ("numbers nowhere -e", 1, "Topic nowhere: UNKNOWN_TOPIC_OR_PARTITION"),
        ("nowhere -p 0", 1, "Topic nowhere: UNKNOWN_TOPIC_OR_PARTITION"),
        ("numbers -g '' -e", 2, "'' is empty"),
        ("numbers -g \udcff -e", 2, "is not UTF-8"),
        ("numbers -g g -o @2h", 2, "With -g"),
        ("numbers -o 99999999999999999999", 2, "'99999999999999999999' is not start"),
        (f"numbers -o +{'9' * 5000}", 2, "is not start, end, +10"),
        ("numbers -o @1960-01-01", 2, "'1960-01-01' is before 1970"),
        (f"numbers -o @{'9' * 400}w", 2, "is not a time"),
        ("numbers --until @", 2, "'' is not a time"),
        ("numbers -o 2h", 2, "or @ and a time"),
        (f"numbers -n {'9' * 5000}", 2, "is above 9223372036854775807, the largest number"),
        ("numbers -p 0,", 2, "'' is not a whole number from 0 on"),
        ("numbers -p 99999999999", 2, "'99999999999' is above 2147483647"),
        ("-r numbers '['", 2, "'[' is not a regular expression (unterminated character set at position 0)"),
        ("-r 'no-.*' none -e", 1, "No topic matches no-.* or none"),
        ("numbers -f %", 2, "template of -f '%' cannot be used: it ends with a lone %"),
        ("numbers -f '%v{nope}'", 2, "{nope} is no form of a text"),
        ("numbers -f '%v{hex'", 2, "is not closed"),
        ("numbers -f '%a'", 2, "%a has no attribute ''"),
        ("numbers -f '%v{unpack[z]}'", 2, "unpack has no letter 'z'"),
        ("numbers -f %v -K :", 2, "put %k into -f"),
        ("numbers --json -K :", 2, "-K is for text"),
        ("numbers --json -D x", 2, "-D is for text"),
        ("numbers --json -Z NULL", 2, "-Z is for text"),
        ("numbers --filter ''", 2, "--filter '' cannot be used"),
        ("numbers --filter 'nope > 1'", 2, "a record has no 'nope'"),
        ("numbers --filter '9**9**9**9 > 1'", 2, "is not allowed"),
        (f"numbers --filter '{'(' * 6000}'", 2, ""),
        ("numbers --filter 'timestamp > \"yesterday\"'", 2, "'yesterday' is not a time"),
        ("numbers --filter 'value.a[ > 1'", 2, "it is no expression"),
        ("numbers --grep 'a{99999999999}'", 2, "the repetition number is too large"),
        ("-r 'a{99999999999}'", 2, "the repetition number is too large"),
        (f"numbers -f '{'%h{' * 2000}{'}' * 2000}'", 2, "template of -f"),
        ("deep -e --value-format json", 1, "The record of deep-0 at offset 0 is nested too deeply"),
        ("deep -e --value-format json --json", 1, "The record of deep-0 at offset 0 is nested too deeply"),
        ("numbers --schema ''", 2, "'' is empty"),
        ("numbers --schema /dev/zero", 2, "/dev/zero has more than"),
        ("numbers --schema-registry ftp://x", 2, "is not a URL"),
        ("numbers -X group.id=x", 2, "-X group.id has an option of its own: use -g GROUP."),
        ("numbers -X enable.auto.commit=true", 2, "use -g GROUP"),
        ("numbers -X auto.offset.reset=none", 2, "use -o start"),
        ("numbers -X fetch.min.bytes=-1", 2, "fetch.min.bytes must be a whole number"),
        ("numbers -X acks=all", 2, "have no setting acks"),
        ("numbers -b ''", 2, "'' is empty"),
        ("numbers -b 127.0.0.1:1", 1, "No connection to 127.0.0.1:1: Connection refused"),
    ],
)
def test_a_mistake_is_one_sentence(ottla_: Run, line: str, code: int, words: str) -> None:
    found, _, err = ottla_(f"consume {line} -X default.api.timeout.ms=500")
    assert (found, words in err, err.count("\n"), "Traceback" in err) == (code, True, 1, False), err
    if not {"-f", "-D", "-K", "-Z"} & set(shlex.split(line)):  # they are not for JSON
        as_json = ottla_(f"consume {line} --json -X default.api.timeout.ms=500")[2]
        assert json.loads(as_json)["exit_code"] == code


def test_what_is_before_a_value_that_cannot_be_decoded_is_printed_and_committed(ottla_: Run, broker: ottla.Broker) -> None:
    with ottla.Producer(broker.address) as producer:
        for value in (b"1", b"2", b"three", b"4"):
            producer.send("mixed", value)
    code, out, err = ottla_("consume mixed -g strict -e --value-format json")
    assert (code, out, "mixed-0 at offset 2" in err, err.count("\n")) == (1, "1\n2\n", True, 1)
    assert ottla_("consume mixed -g strict -e")[1] == "three\n4\n"
    code, out, err = ottla_("consume mixed --group-by-key --value-format json")
    assert (code, out, "cannot be decoded" in err) == (1, "", True)


def test_a_topic_that_does_not_exist_is_named(ottla_: Run) -> None:
    for group in ("", "-g g"):
        code, out, err = ottla_(f"consume nowhere {group} -X default.api.timeout.ms=500")
        assert (code, out, "nowhere" in err, err.count("\n")) == (1, "", True, 1)


@pytest.mark.parametrize("release", ["0.10.2.2", "0.9.0.1", "0.7.2"])
def test_brokers_without_transactions_have_readers_too(capsysbinary: pytest.CaptureFixture[bytes], release: str) -> None:
    known = {"0.9.0.1": "0.9.0", "0.7.2": "0.7"}.get(release)
    settings: dict[str, Any] = {"enable_idempotence": False} if known is None else {"api_version": known}
    with ottla.Broker(release=release) as old:
        with ottla.Producer(old.address, **settings) as producer:
            for number in range(3):
                producer.send("t", b"%d" % number)
        line = ["consume", "t", "-b", old.address, "-n", "3", *(() if known is None else ("-X", f"api.version={known}"))]
        assert (main(line), *capsysbinary.readouterr()) == (0, b"0\n1\n2\n", b"")
        if release == "0.10.2.2":  # no second member of the group may remain, for which the first one would wait
            for more in (["-g", "g"], ["-g", "r", "-r"]):
                assert (main([*line, *more]), *capsysbinary.readouterr()) == (0, b"0\n1\n2\n", b"")


def start(broker: ottla.Broker, line: str, **streams: int) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "OTTLA_BOOTSTRAP_SERVER": broker.address}
    command = [sys.executable, "-m", "ottla", "consume", *shlex.split(line)]
    given = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams}
    return subprocess.Popen(command, env=environment, **given)  # type: ignore[call-overload,no-any-return]  # streams by name


def test_an_interrupted_reader_commits_what_it_printed_and_leaves_its_group(broker: ottla.Broker, ottla_: Run) -> None:
    with start(broker, "numbers -g interrupted") as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(20)]
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    assert (len(lines), out, err, process.returncode) == (20, b"", b"", 130)
    assert ottla_("consume numbers -g interrupted -e") == (0, "", "")


def test_a_slow_reader_gets_whole_lines_and_the_next_one_continues(broker: ottla.Broker, ottla_: Run) -> None:
    with ottla.Producer(broker.address) as producer:
        for number in range(4000):
            producer.send("slow", b"%04d" % number + b"x" * 95)
    with start(broker, "slow -g slow") as process:
        assert process.stdout is not None
        first = process.stdout.read(1)  # it fills the pipe now, and then waits for this test
        process.send_signal(signal.SIGTERM)
        rest = process.stdout.read()
        assert process.wait(timeout=20) == 143
    whole = (first + rest).count(b"\n")
    assert 0 < whole < 4000
    assert ottla_("consume slow -g slow -n 1 -f %o")[1] == str(whole)


def test_a_pipe_that_closes_ends_it_without_a_word(broker: ottla.Broker) -> None:
    with start(broker, "numbers") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b'{"n": 0}\n'
        process.stdout.close()
        assert (process.stderr.read(), process.wait(timeout=20)) == (b"", 0)


@pytest.mark.parametrize(
    ("line", "count"), [("", 20), ("", 4000), ("--filter 'offset >= 0'", 4000)], ids=["idle", "full", "filtered"]
)
def test_records_that_a_closed_pipe_still_held_are_read_again(
    broker: ottla.Broker, ottla_: Run, line: str, count: int, request: pytest.FixtureRequest
) -> None:
    topic = f"held-{request.node.callspec.id}"
    with ottla.Producer(broker.address) as producer:
        for number in range(count):
            producer.send(topic, b"%04d" % number)
    with start(broker, f"{topic} -g {topic} -f '%v{' ' * 95}\\n' {line}", bufsize=0) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert os.read(process.stdout.fileno(), 250)[-50:-46] == b"0002"
        process.stdout.close()
        assert (process.stderr.read(), process.wait(timeout=20)) == (b"", 0)
    assert ottla_(f"consume {topic} -g {topic} -n 1 -f %o")[1] == "2"


def test_a_broker_that_dies_is_one_sentence() -> None:
    with ottla.Broker(num_partitions=1) as mortal:
        with ottla.Producer(mortal.address) as producer:
            producer.send("t", b"v")
        process = start(mortal, "t -X default.api.timeout.ms=300")
        assert process.stdout is not None
        assert process.stdout.readline() == b"v\n"
    out, err = process.communicate(timeout=30)
    assert (out, process.returncode, err.count(b"\n"), b"Traceback" in err) == (b"", 1, 1, False), err


class SchemasByHttp(BaseHTTPRequestHandler):
    """A schema registry of Confluent's protocol, with a schema that refers to another."""

    ANSWERS: ClassVar[dict[str, object]] = {
        "/schemas/ids/1": {
            "schema": '{"type": "record", "name": "F", "fields": [{"name": "p", "type": "Place"}]}',
            "references": [{"name": "Place", "subject": "place", "version": 2}],
        },
        "/subjects/place/versions/2": {"schema": '{"type": "record", "name": "Place", "fields": [{"name": "n", "type": "int"}]}'},
        "/schemas/ids/2": {"schemaType": "JSON", "schema": "{}"},
        "/schemas/ids/3": {"schemaType": "PROTOBUF", "schema": 'syntax = "proto3";'},
        "/schemas/ids/3?format=serialized": {"schemaType": "PROTOBUF", "schema": 'syntax = "proto3";'},
        "/schemas/ids/4": ["no", "registry"],
    }

    def do_GET(self) -> None:
        found = self.ANSWERS.get(self.path) if self.headers["Authorization"] == "Basic dTpw" else None
        body = json.dumps(found if found is not None else {"error_code": 40403}).encode()
        self.send_response(200 if found is not None else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


def test_values_are_decoded_by_a_schema_registry(ottla_: Run, broker: ottla.Broker) -> None:
    with ottla.Producer(broker.address) as producer:
        for number, given in enumerate((b"\1\x0e", b'\2{"a": 1}', b"", b"\3\0", b"\4", b"\5")):
            value = b"\0\0\0\0" + given if given else b"plain"
            producer.send("framed", value, key=b"%d" % number)
    server = ThreadingHTTPServer(("127.0.0.1", 0), SchemasByHttp)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    line = f"consume framed --schema-registry http://u:p@127.0.0.1:{server.server_port}"
    try:
        assert ottla_(f"{line} -n 3") == (0, '{"p": {"n": 7}}\n{"a": 1}\nplain\n', "")
        assert ottla_(f"{line} -n 1 --filter 'value.p.n == 7' --json")[1].count('"value": {"p": {"n": 7}}') == 1
        code, out, err = ottla_("consume framed --schema-registry http://127.0.0.1:1 --filter 'value.p.n == 7' -e")
        assert (code, out, "does not answer" in err) == (1, "", True)
        assert ottla_(f"{line} -n 1 --value-format avro")[1] == '{"p": {"n": 7}}\n'
        for offset, code, words in (
            (3, 1, "as text alone"), (4, 1, "is not a schema registry"), (5, 1, "no schema 5; --value-format hex prints its bytes")
        ):  # fmt: skip
            found = ottla_(f"{line} -n 1 -o {offset}")
            assert (found[0], words in found[2], found[2].count("\n")) == (code, True, 1), found
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    code, _, err = ottla_(f"{line} -n 1")
    assert (code, "does not answer" in err, err.count("\n")) == (1, True, 1)
