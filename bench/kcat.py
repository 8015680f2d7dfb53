"""`ottla produce` and `ottla consume` beside kcat, as whole processes: `python -m bench.kcat`.

    python -m bench.kcat [--records 1000000] [--rounds 7] [--no-kafka]

A file of records of 100 bytes is written to a topic of one partition, and a topic that holds them is read to /dev/null, with the
brokers of Ottla and of Apache Kafka. The commands take turns, start included. The page shows medians, and their processor time.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import NamedTuple

import ottla
from bench.apache_kafka import Unavailable
from bench.figures import thousands
from bench.report import machine, number, spread
from bench.servers import Kafka, Ottla, Server

RESULTS = Path(__file__).with_name("RESULTS-kcat.md")
RECORD_BYTES = 100
PRIORITY = -15
OTTLA = (sys.executable, "-m", "ottla")
WANTED = 1.0
"""The greatest time of `ottla`, as a multiple of kcat's."""

TEMPLATE = "%t %p %o %k %s\n"


class Task(NamedTuple):
    """One thing to do, as the arguments of both commands."""

    name: str
    ottla: tuple[str, ...]
    kcat: tuple[str, ...]
    wanted: float | None = WANTED


class Spent(NamedTuple):
    """The seconds of one process: by the clock, and of processors."""

    wall_s: float
    cpu_s: float


def tasks(address: str, files: dict[str, Path]) -> list[Task]:
    """Return the tasks against one broker."""
    to, kcat = ("-b", address), ("-b", address, "-q")
    reads = ("-C", "-e", "-o", "beginning", *kcat)
    return [
        Task("produce lines", ("produce", "out", str(files["lines"]), *to), ("-P", "-t", "out", "-l", str(files["lines"]), *kcat)),
        Task(
            "produce lines, kcat idempotent as ottla",
            ("produce", "out", str(files["lines"]), *to),
            ("-P", "-t", "out", "-l", str(files["lines"]), "-X", "enable.idempotence=true", *kcat),
        ),
        Task(
            "produce keys and values, -K :",
            ("produce", "out", str(files["keyed"]), "-K", ":", *to),
            ("-P", "-t", "out", "-K", ":", "-l", str(files["keyed"]), *kcat),
        ),
        Task("consume values", ("consume", "lines", "-e", *to), (*reads, "-t", "lines")),
        Task("consume keys and values, -K :", ("consume", "keyed", "-e", "-K", ":", *to), (*reads, "-t", "keyed", "-K", ":")),
        Task("consume by a template", ("consume", "keyed", "-e", "-f", TEMPLATE, *to), (*reads, "-t", "keyed", "-f", TEMPLATE)),
        Task("consume as JSON", ("consume", "keyed", "-e", "--json", *to), (*reads, "-t", "keyed", "-J"), None),
    ]


def spend(command: tuple[str, ...]) -> Spent:
    """Run a command to its end, and return its time. Raises `RuntimeError` if it fails."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
    wall_s, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed: {done.stderr.decode(errors='replace')[-300:]}")
    return Spent(wall_s, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


@contextmanager
def inputs(records: int) -> Iterator[dict[str, Path]]:
    """Write the files that are sent: lines, and lines with a key."""
    noise = os.urandom(1 << 16).hex().encode()
    with tempfile.TemporaryDirectory(prefix="bench-kcat-") as folder:
        made = {"lines": b"", "keyed": b":"}
        for name, separator in made.items():
            with Path(folder, name).open("wb") as file:
                for index in range(records):
                    start = b"key%07d%b" % (index, separator)
                    at = index * 97 % (len(noise) - RECORD_BYTES)
                    file.write(start + noise[at : at + RECORD_BYTES - len(start)] + b"\n")
        yield {name: Path(folder, name) for name in made}


def measure(server: Server, files: dict[str, Path], rounds: int) -> dict[Task, tuple[list[Spent], list[Spent]]]:
    """Return the times of Ottla's command and of kcat, for each task, in each round but the first, which warms up."""
    with ottla.Admin(server.address) as admin:
        for topic in ("out", *files):
            admin.create_topic(topic, 1)
    for topic, file in files.items():
        keyed = () if topic == "lines" else ("-K", ":")
        spend((*OTTLA, "produce", topic, str(file), *keyed, "-b", server.address))
    found: dict[Task, tuple[list[Spent], list[Spent]]] = {task: ([], []) for task in tasks(server.address, files)}
    for index in range(rounds + 1):
        for task, (ours, theirs) in found.items():
            turns = [((*OTTLA, *task.ottla), ours), (("kcat", *task.kcat), theirs)]
            for command, times in turns if index % 2 else reversed(turns):
                spent = spend(command)
                if index:
                    times.append(spent)
    return found


def line(server: str, task: Task, ours: list[Spent], theirs: list[Spent]) -> str:
    walls = [[each.wall_s for each in spent] for spent in (ours, theirs)]
    cpus = [median(each.cpu_s for each in spent) for spent in (ours, theirs)]
    ratio = median(walls[0]) / median(walls[1])
    wanted = "" if task.wanted is None else f"≤ {task.wanted:g}: {'reached' if ratio <= task.wanted else '**missed**'}"
    times = [number(median(each)) + spread(each) for each in walls]
    cells = [server, task.name, times[0], times[1], f"{ratio:.2f}", wanted, number(cpus[0]), number(cpus[1])]
    return f"| {' | '.join(cells)} |"


def page(lines: list[str], notes: list[str], records: int, rounds: int) -> str:
    """Return the whole page of results."""
    table, said = "\n".join(lines), "".join(f"- {note}\n" for note in notes)
    return f"""# What `make bench-kcat` measured last

{machine()}. {thousands(records)} records of {RECORD_BYTES} bytes, whole
processes from the start of the command to its end, in seconds: medians (range) of {rounds} turns, in which both alternate. Broker
and command share the cores, with a raised priority. Figures differ from machine to machine and from hour to hour: only the ratios
of one run count.

| broker | task | ottla, s | kcat, s | ratio | to reach | ottla, CPU s | kcat, CPU s |
|---|---|---|---|---|---|---|---|
{table}

{said}"""


def kcat_version() -> str:
    """Return the versions of kcat and of its librdkafka."""
    shown = subprocess.run(["kcat", "-V"], capture_output=True, text=True, check=True).stdout
    version = next(row for row in shown.splitlines() if row.startswith("Version"))
    library = version.partition("librdkafka ")[2].split(" ")[0]
    return f"{version.split(' ')[1]}, librdkafka {library}"


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.kcat", description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--no-kafka", action="store_true", help="measure with Ottla's broker alone")
    parser.add_argument("--to", type=Path, default=RESULTS, help="the page to write")
    return parser.parse_args()


def main() -> int:
    wanted = options()
    if shutil.which("kcat") is None:
        print("kcat is not installed: install it (apt-get install kcat).", file=sys.stderr)
        return 1
    try:
        os.nice(PRIORITY)
    except PermissionError:
        print("Measured without a raised priority, which needs rights.", file=sys.stderr)
    lines: list[str] = []
    notes = [
        f"kcat: {kcat_version()}.",
        "kcat -e waits half a second at the end of a topic, also of an empty one; ottla takes 0.15 s to start.",
        "kcat is not idempotent by default: all its requests are in flight at once, and can be written twice. ottla is, with five.",
    ]
    with inputs(wanted.records) as files:
        for make in (Ottla,) if wanted.no_kafka else (Ottla, Kafka):
            try:
                with make() as server:
                    found = measure(server, files, wanted.rounds)
                    lines += [line(server.name, task, *spent) for task, spent in found.items()]
            except Unavailable as missing:
                notes.append(f"Measured without Apache Kafka: {missing}.")
    wanted.to.write_text(page(lines, notes, wanted.records, wanted.rounds), encoding="utf-8")
    print(wanted.to.read_text(encoding="utf-8"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
