"""`ottla doctor disk`: its arguments, and its sentence about the cost of acks=all on the user's disk."""

from __future__ import annotations

import argparse
import errno
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ottla.cli.command.arguments import decimal, given
from ottla.cli.command.exits import fail
from ottla.cli.command.parser import Example
from ottla.cli.doctor.findings import OK, WARN, HealthFinding

if TYPE_CHECKING:
    from ottla.cli.command.output import Cell
    from ottla.cli.command.parser import Commands
    from ottla.cli.doctor.disk_costs import DiskCost

DESCRIPTION = """Measure how long the disk of a directory takes to make small writes durable, in the ways that a broker uses, and
say what acks=all costs there. The files of the measurement are in a directory of their own, ottla-doctor-*, which is removed at the
end. A running broker may use the same disk: then the load of both is measured."""
EXAMPLES = (
    Example("doctor disk data", "The cost of acks=all with this data directory."),
    Example("doctor disk data --seconds 3", "Longer, for a disk whose times vary."),
    Example("doctor disk data --seconds 0.5 --json", "Less exact, with an object for each way and one for the sentence."),
)
SECONDS = 1.5
"""The time that the ways share. Files of zeros take more time, up to half a second on most disks."""

LEAST_MS = 0.01
"""The duration below which a sync cannot have reached a disk, in ms."""


def add_to(commands: Commands) -> None:
    own = commands.add(
        "disk", "measure a disk, and say what acks=all costs there", _run, description=DESCRIPTION, examples=EXAMPLES
    )
    own.add_argument("directory", metavar="DIR", type=given, help="an existing directory on the disk, such as a data directory")
    own.add_argument(
        "--seconds",
        metavar="N",
        type=decimal(0.1, 3600, "seconds"),
        default=SECONDS,
        help=f"measure for N seconds (default: {SECONDS})",
    )
    own.add_argument(
        "--json", action="store_true", default=argparse.SUPPRESS, help="print a JSON object for each way, on a line of its own"
    )


def _run(options: argparse.Namespace) -> int:
    from ottla.cli.command.output import print_lines, show
    from ottla.cli.command.signals import Interruption
    from ottla.cli.doctor.disk_costs import MeasurementStopped, measure
    from ottla.ports import StorageFailed

    path = options.directory
    if (unusable := _unusable(path)) is not None:
        return fail(unusable)
    with Interruption() as interruption:
        try:
            costs = list(measure(path, options.seconds, interruption.stop))
        except (MeasurementStopped, StorageFailed, OSError) as error:
            return interruption.exit_code or fail(_failure(path, error))
    rows: list[list[Cell]] = [[each.way, _number(each.p50_ms), _number(each.p99_ms), each.repetitions] for each in costs]
    show(("way", "p50 ms", "p99 ms", "repetitions"), rows, as_json=options.json)
    print_lines([judge({each.way: each for each in costs}).line(as_json=options.json)])
    return 0


def _unusable(path: str) -> str | None:
    """Return a sentence if a path cannot be the one to measure, before anything is written."""
    if not os.path.exists(path):
        return f"{path} does not exist: name an existing directory on the disk."
    return None if os.path.isdir(path) else f"{path} is a file: name a directory on the disk."


def _failure(path: str, error: Exception) -> str:
    from ottla.net.disk.reserve import is_full
    from ottla.ports import StorageFailed

    if isinstance(error, StorageFailed) or is_full(error):
        reason = error.reason if isinstance(error, StorageFailed) else os.strerror(errno.ENOSPC)
        return f"{path} is on a disk that is nearly full ({reason}): free some space, or name a directory on another disk."
    assert isinstance(error, OSError), "a measurement that was stopped has an exit code"
    return f"{path} cannot be measured ({error.strerror}): name a directory that this user may write, on a disk that works."


def _number(ms: float) -> float:
    """Round a duration to three decimals below 1 ms, and to fewer above."""
    return round(ms, 3 if ms < 1 else 2 if ms < 100 else 0)


def judge(costs: Mapping[str, DiskCost]) -> HealthFinding:
    """Return the finding about the cost of acks=all, from the costs of all ways that the file system allows."""
    from ottla.cli.doctor.disk_costs import APPEND, DIRECT, FILES, ONE_BY_ONE, ROOM, THREADS

    one = costs[APPEND].p50_ms
    if one < LEAST_MS:
        sentence = f"a sync takes {one * 1000:.1f} µs, too short for a disk: this file system is in memory or ignores syncs, and"
        return HealthFinding(WARN, "disk", f"{sentence} a power cut loses records in spite of acks=all.")
    many = min(costs[ONE_BY_ONE].p50_ms, costs[THREADS].p50_ms)
    way, journal = ("one direct write", costs[DIRECT]) if DIRECT in costs else ("one write and one sync", costs[ROOM])
    sentence = f"acks=all takes about {_number(journal.p50_ms)} ms here for all partitions together, by {way} in the journal;"
    rest = f"without it, one partition takes {_number(one)} ms and {FILES} take {_number(many)} ms."
    return HealthFinding(OK, "disk", f"{sentence} {rest}")
