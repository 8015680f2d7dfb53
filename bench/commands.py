"""How long the daily tasks of docs/command.md take at a terminal: whole processes of kcat, Apache Kafka's tools and `ottla`.

    nice -n -15 python -m bench.commands [--rounds 3] [--only consume] [--write]

All tasks run on one broker of Ottla, the programs in turn; the best of the rounds counts, since other work only adds. Kafka's tools
are started as their scripts start them, without the scripts. `--write` puts the seconds into the tables of docs/command.md. The
start of `ottla --help` and `ottla topic list` is timed beside that of Python itself: exit code 1 if one is over its limit.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import ottla
from bench.apache_kafka import Unavailable, class_path, java
from bench.servers import Ottla

PAGE = Path(__file__).parents[1] / "docs" / "command.md"
RECORDS, SIZE = 100_000, 100
JVM = ("-Xmx256M", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35",
       "-XX:+ExplicitGCInvokesConcurrent", "-XX:MaxInlineLevel=15", "-Djava.awt.headless=true")  # fmt: skip
"""The options of kafka-run-class.sh."""
TOOLS: Mapping[str, str] = {
    "configs": "kafka.admin.ConfigCommand",
    "console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "consumer-perf-test": "org.apache.kafka.tools.ConsumerPerformance",
    "delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "topics": "org.apache.kafka.tools.TopicCommand",
}
LIMITS_S = {"--help": 0.120, "topic list": 0.250}
STARTS = 10
"""The number of starts of each command with a limit."""


class CommandTask(NamedTuple):
    """A row of a table: its task, and the words of each program, empty for none.

    `{n}` is a number that no other run has, `{lines}`, `{keyed}` and `{offsets}` are files.
    """

    task: str
    ottla: str
    kafka: str = ""
    kcat: str = ""


TASKS = (
    CommandTask("list topics", "topic list", "topics --list", "-L"),
    CommandTask("create", "topic create o{n} -p 6", "topics --create --topic k{n} --partitions 6"),
    CommandTask("partitions, leaders, changed settings", "topic describe t", "topics --describe --topic t", "-L -t t"),
    CommandTask(
        "offsets at a time", "topic offsets t --at 2h", "get-offsets --topic t --time 1795000000000", "-Q -t t:0:1795000000000"
    ),
    CommandTask("delete the first records", "topic trim t --before 7d", "delete-records --offset-json-file {offsets}"),
    CommandTask("list groups", "group list", "consumer-groups --list --state"),
    CommandTask("members and lag", "group describe g", "consumer-groups --describe --group g"),
    CommandTask("lag of all groups", "group lag", "consumer-groups --describe --all-groups"),
    CommandTask(
        "read everything again",
        "group seek g --to start",
        "consumer-groups --group g --reset-offsets --to-earliest --all-topics --execute",
    ),
    CommandTask(
        "settings of a topic that differ from the defaults",
        "config get topic/t",
        "configs --describe --entity-type topics --entity-name t",
    ),
    CommandTask(
        "change a setting",
        "config set topic/u retention.ms=9{n}00000",
        "configs --alter --entity-type topics --entity-name u --add-config retention.ms=9{n}00000",
    ),
    CommandTask("log directories, their sizes and free space", "logdirs", "log-dirs --describe"),
    CommandTask("the controllers", "cluster quorum", "metadata-quorum describe --status"),
    CommandTask("all checks, with advice", "doctor"),
    CommandTask(
        "as fast as the broker takes them",
        "bench produce u -n 1000000",
        "producer-perf-test --topic u --num-records 1000000 --record-size 100 --throughput -1",
    ),
    CommandTask("lines of a file", "produce u {lines}", "console-producer --topic u < {lines}", "-P -t u -l {lines}"),
    CommandTask(
        "keys before a colon",
        "produce u -K : {keyed}",
        "console-producer --topic u --property parse.key=true --property key.separator=: < {keyed}",
        "-P -t u -K : -l {keyed}",
    ),
    CommandTask(
        "all records up to now",
        "consume t -e",
        f"console-consumer --topic t --from-beginning --max-messages {RECORDS}",
        "-C -e -q -t t",
    ),
    CommandTask(
        "one record",
        "consume t -n 1 -o 5000 -p 0",
        "console-consumer --topic t --partition 0 --offset 5000 --max-messages 1",
        "-C -q -c 1 -o 5000 -p 0 -t t",
    ),
    CommandTask("as JSON", "consume t --json -e", "", "-C -J -e -q -t t"),
)


class CommandBench:
    """The programs, at one broker."""

    def __init__(self, address: str, home: Path) -> None:
        self._address = address
        self._numbers = 0
        beside = Path(sys.executable).with_name("ottla")
        self._ottla = [str(beside)] if beside.exists() else [sys.executable, "-m", "ottla"]
        self._kafka = self._java()
        self._files = {name: str(home / name) for name in ("lines", "keyed", "offsets")}
        lines = [f"{number:0{SIZE}}\n" for number in range(RECORDS)]
        (home / "lines").write_text("".join(lines))
        (home / "keyed").write_text("".join(f"{line[-7:-1]}:{line}" for line in lines))
        (home / "offsets").write_text('{"version": 1, "partitions": [{"topic": "t", "partition": 0, "offset": 0}]}')
        self._prepare()

    @staticmethod
    def _java() -> list[str] | None:
        try:
            return [java(), *JVM, "-cp", class_path()]
        except Unavailable as missing:
            print(f"Kafka's tools are not measured: {missing}", file=sys.stderr)
            return None

    def _prepare(self) -> None:
        with ottla.Admin(self._address) as admin:
            admin.create_topics([ottla.NewTopic(name, 1, 1, {"retention.ms": "-1"}) for name in ("t", "u")])
            admin.alter_group_offsets("g", {("t", 0): 10})
        self.seconds([*self._ottla, "produce", "t", self._files["lines"], "-b", self._address])

    def commands(self, task: CommandTask) -> dict[str, str]:
        """Return the command lines of a task by program."""
        self._numbers += 1
        address = self._address
        found = {}
        if task.kcat:
            found["kcat"] = f"kcat -b {address} {self._filled(task.kcat)}"
        if task.kafka and self._kafka is not None:
            tool, _, words = task.kafka.partition(" ")
            servers = (
                f"--producer-props bootstrap.servers={address}" if tool == "producer-perf-test" else f"--bootstrap-server {address}"
            )
            found["kafka"] = f"{shlex.join(self._kafka)} {TOOLS[tool]} {servers} {self._filled(words)}"
        found["ottla"] = f"{shlex.join(self._ottla)} {self._filled(task.ottla)} -b {address}"
        return found

    def _filled(self, words: str) -> str:
        return words.format(n=self._numbers, **self._files)

    def start_s(self, words: str) -> float:
        """Return the time of an `ottla` command."""
        where = [] if words == "--help" else ["-b", self._address]
        return self.seconds([*self._ottla, *words.split(), *where])

    @staticmethod
    def seconds(command: Sequence[str] | str) -> float:
        """Run a command line to its end, and return how long that takes."""
        began = time.perf_counter()
        done = subprocess.run(command, shell=isinstance(command, str), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        elapsed = time.perf_counter() - began
        if done.returncode:
            raise SystemExit(f"`{command}` ended with {done.returncode}: {done.stderr}")
        return elapsed


def measure(bench: CommandBench, tasks: Sequence[CommandTask], rounds: int) -> dict[str, dict[str, float]]:
    """Return the best time of each program, by task."""
    best: dict[str, dict[str, float]] = {task.task: {} for task in tasks}
    for _ in range(rounds):
        for task in tasks:
            for program, command in bench.commands(task).items():
                best[task.task][program] = min(best[task.task].get(program, 1e9), bench.seconds(command))
    return best


def check_starts(bench: CommandBench) -> bool:
    """Time commands with a limit in turn with an empty Python program. Return whether they are within their limits."""
    found: dict[str, list[float]] = {name: [] for name in ("python", *LIMITS_S)}
    for _ in range(STARTS):
        found["python"].append(bench.seconds([sys.executable, "-c", "pass"]))
        for words in LIMITS_S:
            found[words].append(bench.start_s(words))
    for name, times in found.items():
        limit = f", limit {1000 * LIMITS_S[name]:.0f}" if name in LIMITS_S else ""
        print(f"{name}: best {1000 * min(times):.0f} ms, median {1000 * sorted(times)[len(times) // 2]:.0f} ms{limit}")
    return all(min(found[words]) <= limit for words, limit in LIMITS_S.items())


def cell(times: Mapping[str, float]) -> str:
    return ", ".join(f"{program} {seconds:.2f}" for program, seconds in times.items())


def with_seconds(page: str, best: Mapping[str, Mapping[str, float]]) -> str:
    """Return the page with the column `seconds` as the last one of each table of tasks. Rows that were not measured stay."""
    lines, is_table, adds = [], False, False
    for line in page.splitlines():
        is_table = line.startswith("| task |") or (is_table and line.startswith("|"))
        if is_table:
            cells = re.split(r"(?<!\\)\|", line)[1:-1]
            title = cells[0].strip()
            if title == "task":
                adds = cells[-1].strip() != "seconds"
            added = (
                " seconds "
                if title == "task"
                else "---"
                if set(title) == {"-"}
                else f" {cell(best[title])} "
                if title in best
                else " "
            )
            if adds:
                cells.append(added)
            elif title in best:
                cells[-1] = added
            line = f"|{'|'.join(cells)}|"
        lines.append(line)
    return "\n".join(lines) + "\n"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="the number of runs of each program (default 3)")
    parser.add_argument("--only", default="", metavar="TEXT", help="only tasks whose `ottla` command contains this text")
    parser.add_argument("--write", action="store_true", help=f"write the seconds into the tables of {PAGE.name}")
    options = parser.parse_args(argv)
    tasks = [task for task in TASKS if options.only in task.ottla]
    with tempfile.TemporaryDirectory() as home, Ottla() as broker:
        bench = CommandBench(broker.address, Path(home))
        best = measure(bench, tasks, options.rounds)
        for name, times in best.items():
            print(json.dumps({"task": name, **{program: round(seconds, 3) for program, seconds in times.items()}}))
        is_quick = check_starts(bench)
    if options.write:
        PAGE.write_text(with_seconds(PAGE.read_text(), best))
    return 0 if is_quick else 1


if __name__ == "__main__":
    sys.exit(main())
