"""Runs the whole example: broker, loader, Spark, consumer group, tables, picture, check.

Its exit code is 1 when the check finds a difference.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn
from rich.text import Text

from examples.flights import check, data, load, report
from examples.flights.consume import Read, consume
from examples.flights.processes import Child, Children
from ottla.records import kernel


class Rate(ProgressColumn):
    """Rows a second since the stage began."""

    def render(self, task: Task) -> Text:
        elapsed = task.finished_time or task.elapsed
        return Text(f"{task.completed / elapsed:,.0f} rows/s" if elapsed else "")


@dataclass(slots=True)
class Run:
    """One run: what it prints on, how long each stage took (seconds), how many rows passed."""

    console: Console
    seconds: dict[str, float] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)

    @contextmanager
    def stage(self, name: str, total: int | None = None) -> Iterator[Callable[..., None]]:
        """Time a stage; with a total, show a bar and give what moves it: by a count, and with another name if one is given."""
        began = time.monotonic()
        columns = (TextColumn("{task.description:<28}"), BarColumn(30), MofNCompleteColumn(), Rate(), TimeElapsedColumn())
        with Progress(*columns, console=self.console, disable=total is None) as progress:
            task = progress.add_task(name, total=total)

            def show(count: int, name: str = name) -> None:
                progress.update(task, advance=count, description=name)

            yield show
        self.seconds[name] = time.monotonic() - began


def serve(children: Children, directory: Path) -> tuple[Child, str]:
    """A broker in a process of its own, on a free port; returns it and its address."""
    arguments = ["ottla.cli.main", "serve", "--data-dir", str(directory / "data"), "--listen", "127.0.0.1:0"]
    arguments += ["--set", "group.initial.rebalance.delay.ms=200"]  # both members come at once: no need for the usual seconds
    broker = children.start("The broker", arguments, directory / "broker.log")
    line = broker.line()
    found = re.search(r"127\.0\.0\.1:\d+", line)
    if found is None:
        raise SystemExit(f"The broker did not say its address, but: {line}")
    return broker, found[0]


def events(spark: Child) -> Iterator[dict[str, int | str]]:
    """What the Spark job reports; other lines on its output are Java's."""
    while True:
        line = spark.line()
        if line.startswith('{"event"'):
            yield json.loads(line)


def wait_for(spark: Child, event: str) -> None:
    next(each for each in events(spark) if each["event"] == event)


def stream(run: Run, spark: Child) -> None:
    with run.stage("3 Spark: join, aggregate", total=data.ROWS[data.FLIGHTS]) as show:
        spark.tell("go")
        for event in events(spark):
            if event["event"] == "done":
                return
            lag = f"{event['lag']:,} left"
            run.rows["read by Spark"] = run.rows.get("read by Spark", 0) + int(event["rows"])
            run.rows["micro-batches"] = run.rows.get("micro-batches", 0) + 1
            show(int(event["rows"]), f"3 Spark: join, {lag}")


def read_delays(run: Run, servers: str) -> Read:
    with run.stage("4 aiokafka: group of two", total=load.rows_in(servers, "delays")) as show:
        read = consume(servers, show)
    run.rows["in topic delays"] = sum(read.rows)
    run.rows["groups (last row of a key)"] = len(read.last)
    return read


def verify(run: Run, read: Read) -> int:
    """Print each difference between what came through and what the CSV files say; the exit code."""
    with run.stage("5 check against the CSV"):
        right = check.straight()
        wrong = list(check.differences(read.delays(), right))
    for sentence in wrong[:20]:
        run.console.print(f"[red]different[/]: {sentence}")
    if wrong:
        run.console.print(f"[bold red]{len(wrong)} of {len(right)} groups differ from the CSV files.[/]")
        return 1
    run.console.print(f"[green]The same as computed straight from the CSV files, in all {len(right):,} groups.[/]")
    return 0


def summarise(run: Run, broker: Child) -> None:
    for name, count in run.rows.items():
        run.console.print(f"  {name:<28}{count:>12,} rows" if "batches" not in name else f"  {name:<28}{count:>12,}")
    for name, seconds in run.seconds.items():
        run.console.print(f"  {name:<28}{seconds:>12.1f} s")
    run.console.print(f"  {'in all':<28}{sum(run.seconds.values()):>12.1f} s")
    run.console.print(f"  {'peak memory of the broker':<28}{broker.peak_memory_bytes() / 1e6:>12.0f} MB")


def demo(console: Console, directory: Path, picture: Path) -> int:
    run = Run(console)
    with Children() as children:
        with run.stage("1 broker answers"):
            broker, servers = serve(children, directory)
        console.print(f"Broker at {servers}, its data in {directory}")
        if not kernel.COMPILED:
            console.print("Records are opened by plain Python, more slowly: no C compiler was there when Ottla was installed.")
        spark = children.start(
            "Spark", ["examples.flights.pipeline", servers, str(directory / "checkpoint")], directory / "spark.log"
        )
        with run.stage("2 confluent-kafka: load", total=sum(data.ROWS.values())) as show:
            load.make_topics(servers)
            run.rows["loaded"] = load.load(servers, show)
        with run.stage("3 Spark: rest of its start"):
            wait_for(spark, "ready")
        stream(run, spark)
        read = read_delays(run, servers)
        report.print_tables(console, read.delays())
        with run.stage("5 picture"):
            console.print(f"Picture: {report.save_picture(read.delays(), picture)}")
        code = verify(run, read)
        summarise(run, broker)
    return code


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m examples.flights", description=__doc__)
    parser.add_argument("--picture", type=Path, default=Path("out/flights-delays.png"), help="where the picture is saved")
    parser.add_argument("--keep", action="store_true", help="keep the broker's data and the logs")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    directory = Path(tempfile.mkdtemp(prefix="ottla-flights-"))
    console = Console() if sys.stdout.isatty() else Console(width=100)
    try:
        return demo(console, directory, options.picture)
    except KeyboardInterrupt:
        console.print("Stopped.")
        return 130
    finally:
        if options.keep:
            console.print(f"Data and logs are in {directory}")
        else:
            shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
