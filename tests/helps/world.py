"""The world of one example: topics, groups, files and profiles that it names, and the run of its line."""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from unittest.mock import patch

import confluent_kafka

import ottla
from ottla.cli.main import main
from ottla.client.types import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from ottla.wire.api.broker_registration import BrokerRegistrationRequest
from ottla.wire.errors import NONE
from tests.helps.clusters import HelpCluster
from tests.support.bad_groups import Questioner
from tests.support.waiting import eventually

PROGRAM = shlex.join([sys.executable, "-m", "ottla"])
DAY_MS = 86_400_000
PATIENCE_S = 30
Found = TypeVar("Found")
TOO_OLD = re.compile(r"\b(Kafka [\d.]+ or newer|clusters of KRaft)\b.*\n\Z")
"""The end of the last sentence of a command that the broker is too old for."""


class Refused(Exception):
    """The example has ended with a sentence that names the release which it needs."""


class HelpOutcome(NamedTuple):
    """The end of a command."""

    code: int
    out: str
    err: str

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]


class Keyboard(io.StringIO):
    """A terminal at which text was typed."""

    def isatty(self) -> bool:
        return True


class HelpWorld:
    """A context manager; leaving deletes the topics and groups of the cluster."""

    def __init__(self, cluster: HelpCluster, line: str, home: Path) -> None:
        self.cluster, self.line, self.home = cluster, line, home
        self.words: dict[str, str] = {"localhost:9092": cluster.address}
        """Words of the example that only this run can know, with what stands for them here."""
        self.environment = {
            "OTTLA_BOOTSTRAP_SERVER": cluster.address,
            "XDG_CONFIG_HOME": str(home / "config"),
            "NO_COLOR": "1",
        }
        self.is_too_old = False
        self.example_runs = 0
        """The number of times that the scenario has run the example, perhaps with further options."""
        """Whether the cluster cannot do what the example says."""
        self._made: set[str] = set()
        self._stack = ExitStack()

    def __enter__(self) -> HelpWorld:
        with ExitStack() as stack:
            here = Path.cwd()
            os.chdir(self.home)
            stack.callback(os.chdir, here)
            stack.enter_context(patch.dict(os.environ, self.environment))
            self.admin = stack.enter_context(self.cluster.admin())
            stack.callback(self._clean)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def _clean(self) -> None:
        names = sorted({*self.admin.list_topics(), *self._made})
        eventually(self._is_clean, what="groups and topics are deleted")
        if not self.cluster.is_ottla:  # a broker with ZooKeeper lists a topic no more before it can be created again
            eventually(lambda: self._can_create(names), what=f"{names} can be created again")

    def _is_clean(self) -> bool:
        for group in (groups := self.admin.list_groups()):
            with suppress(ottla.KafkaError):  # its members may be on their way out
                self.admin.delete_groups(group.group_id)
        if topics := self.admin.list_topics():
            with suppress(ottla.KafkaError):  # an older broker deletes it after its answer
                self.admin.delete_topics(*topics)
        return not groups and not topics

    def _can_create(self, names: list[str]) -> bool:
        with suppress(ottla.KafkaError):
            self.admin.create_topics([ottla.NewTopic(name, 1, 1) for name in names], validate_only=True)
            return True
        return False

    # What examples name

    def topic(self, name: str = "flights", *values: bytes, partitions: int = 1, **configs: object) -> None:
        """Create a topic whose first partition has records of these values."""
        self._made.add(name)
        self.admin.create_topic(name, partitions, 1, {key.replace("_", "."): str(each) for key, each in configs.items()})
        eventually(lambda: self._is_led(name, partitions), what=f"topic {name} has leaders")
        self.write(*values, topic=name)

    def _is_led(self, name: str, partitions: int) -> bool:
        with suppress(ottla.KafkaError):
            found = self.admin.describe_topics(name)[name].partitions.values()
            return len(found) == partitions and all(each.leader >= 0 for each in found)
        return False

    def write(
        self,
        *values: bytes,
        topic: str = "flights",
        key: bytes | None = None,
        partition: int = 0,
        ago_ms: int | None = None,
        servers: Mapping[str, Any] | None = None,
    ) -> None:
        """Write records, of now or of some time ago."""
        at = None if ago_ms is None else int(time.time() * 1000) - ago_ms
        settings = dict(servers or {"bootstrap_servers": self.cluster.address})
        if self.cluster.release < (0, 11):
            settings["enable_idempotence"] = False
        with ottla.Producer(**settings) as producer:
            for value in values:
                producer.send(topic, value, key=key, partition=partition, timestamp_ms=at)

    @staticmethod
    def wait_until(probe: Callable[[], Found]) -> Found:
        """Wait for an effect that a cluster brings about after its answer; return what the probe found."""
        return eventually(probe, timeout_s=PATIENCE_S)

    def records(self, topic: str = "flights", servers: Mapping[str, Any] | None = None) -> list[ottla.ConsumerRecord]:
        """Return the records of a topic, in the order of its partitions."""
        settings = dict(servers or {"bootstrap_servers": self.cluster.address})
        if self.cluster.release >= (0, 11):
            settings["isolation_level"] = "read_committed"
        with (
            ottla.Consumer(**settings) as consumer,
            ottla.Admin(**(servers or {"bootstrap_servers": self.cluster.address})) as admin,
        ):
            places = sorted(consumer.partitions_for(topic))
            consumer.assign(places)
            consumer.seek_to_beginning()
            # Without regard to transactions, whose markers a broker writes after it has answered.
            ends = {place: each.offset for place, each in admin.list_offsets(dict.fromkeys(places, LATEST_TIMESTAMP)).items()}
            found: list[ottla.ConsumerRecord] = []
            while any(consumer.position(place) < ends[place] for place in places):
                found += consumer.poll(100)
        return sorted(found, key=lambda record: (record.partition, record.offset))

    def values(self, topic: str = "flights") -> list[bytes | None]:
        return [record.value for record in self.records(topic)]

    def starts(self, topic: str = "flights") -> list[int]:
        """Return the first offset of each partition."""
        partitions = self.admin.describe_topics(topic)[topic].partitions
        found = self.admin.list_offsets({(topic, index): EARLIEST_TIMESTAMP for index in sorted(partitions)})
        return [each.offset for each in found.values()]

    def commit(self, group: str = "board", *offsets: int, topic: str = "flights") -> None:
        """Commit offsets of the first partitions of a topic."""
        self.admin.alter_group_offsets(group, {(topic, index): offset for index, offset in enumerate(offsets)})

    def committed(self, group: str = "board", topic: str = "flights") -> dict[int, int]:
        """Return the committed offsets of a group, by partition."""
        offsets = self.admin.list_group_offsets(group)
        return {where.partition: each.offset for where, each in offsets.items() if where.topic == topic}

    @contextmanager
    def member(self, group: str = "board", topic: str = "flights", instance: str | None = None) -> Iterator[ottla.Consumer]:
        """Let a consumer be a member of a group, with all partitions of a topic."""
        settings: dict[str, Any] = {} if instance is None else {"group_instance_id": instance}
        with ottla.Consumer(
            topic, bootstrap_servers=self.cluster.address, group_id=group, enable_auto_commit=False, **settings
        ) as consumer:
            eventually(lambda: consumer.poll(20) or consumer.assignment(), what=f"a member of {group} has partitions")
            yield consumer
        if instance is not None:  # a static member stays when it is closed
            with suppress(ottla.KafkaError):
                self.admin.remove_members(group, None)

    @contextmanager
    def member_of_consumer_protocol(self, group: str) -> Iterator[confluent_kafka.Consumer]:
        """Let a consumer be a member of a group of the consumer protocol (KIP-848)."""
        settings = {"bootstrap.servers": self.cluster.address, "group.id": group, "group.protocol": "consumer"}
        with closing(confluent_kafka.Consumer({**settings, "enable.auto.commit": False})) as member:
            member.subscribe(["flights"])
            eventually(lambda: member.poll(0.02) or member.assignment(), what=f"a member of {group} has partitions")
            yield member

    def profile(self, name: str, settings: Mapping[str, Any]) -> None:
        """Create a profile with these client settings."""
        pairs = [f"{key.replace('_', '.')}={value}" for key, value in settings.items() if key != "bootstrap_servers"]
        words = " ".join(f"-X {shlex.quote(pair)}" for pair in pairs)
        self.run(f"profile create {name} -b {settings['bootstrap_servers']} {words}")

    def log_in(self) -> None:
        """Let commands connect to the listener with TLS and a login."""
        self.profile("secured", self.cluster.secured)
        self.run("profile use secured")
        os.environ.pop("OTTLA_BOOTSTRAP_SERVER", None)  # the world's end restores it

    def register_broker(self, node_id: int) -> None:
        """Register a broker with the controller, as a broker of KRaft does at its start, and leave it stopped."""
        features = [
            BrokerRegistrationRequest.Feature(name=name, min_supported_version=0, max_supported_version=each.highest)
            for name, each in self.admin.describe_features().features.items()
        ]
        listener = BrokerRegistrationRequest.Listener(name="PLAINTEXT", host="127.0.0.1", port=9092, security_protocol=0)
        request = BrokerRegistrationRequest(
            broker_id=node_id,
            cluster_id=self.admin.describe_cluster().cluster_id or "",
            incarnation_id=b"stopped for ever",
            listeners=[listener],
            features=features,
            log_dirs=[b"of a lost broker"],
        )
        with closing(Questioner(self.cluster.controller)) as questioner:
            assert questioner.ask(62, 4, request).error_code == NONE

    # The run of a line

    def run(
        self, line: str | None = None, *, code: int = 0, stdin: bytes = b"", typed: str | None = None, in_process: bool = True
    ) -> HelpOutcome:
        """Run the example, or another line, and check its exit code.

        A line with a pipe or a redirection is run by a shell. `typed` is a line at the terminal.
        """
        text = self._filled(line)
        outcome = (
            self._in_shell(text, stdin) if not in_process or re.search(r" [|<>] ", text) else self._in_process(text, stdin, typed)
        )
        if self.is_too_old and outcome.code == 1 and TOO_OLD.search(outcome.err):
            assert outcome.out == ""
            raise Refused(outcome.err)
        if self.is_too_old and line is not None and outcome.code == 1:
            raise ottla.NotSupported(outcome.err)
        assert outcome.code == code, f"`ottla {text}` ended with {outcome}"
        return outcome

    def _filled(self, line: str | None) -> str:
        text = self.line if line is None else line
        self.example_runs += self.line in text
        for word, actual in self.words.items():
            text = text.replace(word, actual)
        return text

    def _in_process(self, text: str, stdin: bytes, typed: str | None) -> HelpOutcome:
        with ExitStack() as stack:
            out, err = (stack.enter_context(io.TextIOWrapper(io.BytesIO(), "utf-8", newline="")) for _ in range(2))
            stack.enter_context(redirect_stdout(out))
            stack.enter_context(redirect_stderr(err))
            keyboard = self._piped(stack, stdin) if typed is None else Keyboard(f"{typed}\n")
            stack.enter_context(patch.object(sys, "stdin", keyboard))
            try:
                code = main(shlex.split(text))
            except SystemExit as end:
                code = int(str(end.code))
            for stream in (out, err):
                stream.flush()
            return HelpOutcome(code, *(stream.buffer.getvalue().decode() for stream in (out, err)))

    @staticmethod
    def _piped(stack: ExitStack, stdin: bytes) -> io.TextIOWrapper:
        """Return a pipe from which `stdin` can be read."""
        reading, writing = os.pipe()
        writer = threading.Thread(target=_write, args=(writing, stdin))
        writer.start()
        stack.callback(writer.join)
        return stack.enter_context(open(reading, encoding="utf-8"))

    def _in_shell(self, text: str, stdin: bytes) -> HelpOutcome:
        script = f'set -o pipefail; ottla() {{ {PROGRAM} "$@"; }}; ottla {text}'
        done = subprocess.run(["bash", "-c", script], input=stdin, capture_output=True, timeout=110)
        return HelpOutcome(done.returncode, done.stdout.decode(), done.stderr.decode())

    @contextmanager
    def following(self, *, code: int = 130) -> Iterator[FollowedCommand]:
        """Run the example as a process which Ctrl-C ends with this exit code."""
        with FollowedCommand(self._filled(None), code) as command:
            yield command


class FollowedCommand:
    """A command as a process; leaving sends Ctrl-C, and checks the exit code."""

    def __init__(self, text: str, code: int) -> None:
        # A shell shows 130 also for a process that the signal has ended.
        self._codes = (130, -signal.SIGINT) if code == 130 else (code,)
        words = [sys.executable, "-m", "ottla", *shlex.split(text)]
        self._process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.text = ""

    def wait_for(self, text: str) -> None:
        """Read the output until it contains `text` and the rest of that line."""
        assert self._process.stdout is not None
        timer = threading.Timer(PATIENCE_S, self._process.kill)
        timer.start()
        try:
            while not self._has_line_of(text) and (data := os.read(self._process.stdout.fileno(), 65536)):
                self.text += data.decode()
        finally:
            timer.cancel()
        assert text in self.text, f"the command has printed:\n{self.text}"

    def _has_line_of(self, text: str) -> bool:
        found = self.text.partition(text)[1:]
        return "\n" in "".join(found)

    def __enter__(self) -> FollowedCommand:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        with self._process as process:
            process.send_signal(signal.SIGINT if kind is None else signal.SIGKILL)
            assert process.stdout is not None
            self.text += process.stdout.read().decode()
        assert kind is not None or self._process.returncode in self._codes, self.text


def _write(descriptor: int, data: bytes) -> None:
    with suppress(BrokenPipeError), open(descriptor, "wb") as file:
        file.write(data)
