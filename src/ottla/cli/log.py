"""`ottla log`: the inspection and repair of a data directory's files. `ottla.log.check` does the work."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from ottla.cli.command.parser import Example

if TYPE_CHECKING:
    from contextlib import closing

    from ottla.cli.command.parser import Parser
    from ottla.log.check.dump import Row
    from ottla.log.check.findings import Finding, Known
    from ottla.net.disk.disk import RealDisk

CHECK = """Read every batch of a data directory, or of one partition's directory in it, and hold indexes, snapshots and epochs
against them, and the journal against the logs. Nothing is changed without --repair, which builds anew what is derived, cuts out
the bytes that cannot be read, writes leader epochs again as leader-epoch-checkpoint has them, and goes on behind records that the
journal has lost: what it replaces is kept beside the log as *.damaged. No broker may run on the directory. Exit code 1: there are
findings."""
DUMP = """Print what is in a file of a log, or in all files of a directory: batches (with --deep their records), entries of
indexes, producers, checkpoints, blocks of a journal. Exit code 1: a part could not be read; the rest is printed."""
CHECK_EXAMPLES = (
    Example("log check data", "Read everything, and change nothing."),
    Example("log check data --repair", "Mend what can be mended."),
    Example("log check data/flights-0 --json", "One partition; an object for each finding."),
)
DUMP_EXAMPLES = (
    Example("log dump data/flights-0", "The batches, indexes and checkpoints of one partition."),
    Example("log dump data --deep", "All batches with their records."),
    Example("log dump data/flights-0/00000000000000000000.log --json", "An object for each batch of a file."),
)


def build(parser: Parser) -> None:
    own = parser.group()
    check = own.add("check", "find damage, and repair it", description=CHECK, examples=CHECK_EXAMPLES)
    check.add_argument("directory", metavar="DIR", help="a data directory, or the directory of one partition")
    check.add_argument(
        "--repair", action="store_true", help="repair the findings that can be repaired, and keep replaced bytes as *.damaged"
    )
    check.add_argument("--json", action="store_true", help="print a JSON object for each finding, on a line of its own")
    check.set_defaults(run=run_check)
    dump = own.add("dump", "print batches, records, indexes, snapshots", description=DUMP, examples=DUMP_EXAMPLES)
    dump.add_argument("path", metavar="FILE|DIR", help="a file of a log, a partition's directory, or a data directory")
    dump.add_argument("--json", action="store_true", help="print a JSON object for each row, on a line of its own")
    dump.add_argument(
        "--deep", action="store_true", help="open the batches and print their records, those of internal topics by their fields"
    )
    dump.set_defaults(run=run_dump)


def run_check(options: argparse.Namespace) -> int:
    from ottla.cli.command.exits import fail
    from ottla.log.journal.format import JOURNAL
    from ottla.net.disk.remedies import remedy_of
    from ottla.net.startup.data_directory import DataDirectoryError, lock, was_killed
    from ottla.ports import StorageFailed

    data_dir, wanted = _place(options.directory)
    if wanted == JOURNAL:
        return fail(f"{options.directory} is the journal of {data_dir}, which is checked with its logs: name {data_dir}.")
    try:
        with lock(data_dir), _disk(data_dir) as disk:
            return _check(disk, wanted, options, killed=was_killed(data_dir))
    except DataDirectoryError as error:
        return fail(str(error))
    except StorageFailed as failure:
        return fail(f"{data_dir}/{failure}: the rest was not checked; {remedy_of(failure)}, and run this command again.")


def _check(disk: RealDisk, wanted: str | None, options: argparse.Namespace, *, killed: bool) -> int:
    from ottla.cli.command.exits import fail
    from ottla.log.check import check, findings, repairs
    from ottla.net.clock import RealClock
    from ottla.net.startup.first_clients import sidecars

    format07 = sidecars()
    noted = check.all_known(disk)
    paths = {os.path.basename(path): path for path in check.partitions(disk, disk.log_dirs)}
    if wanted is not None and wanted not in noted and not disk.exists(wanted):
        return fail(f"{options.directory} does not exist: name a data directory, or a partition's directory in it.")
    say = _printer(options.json)
    faults = _tell(check.check_directory(disk, disk.log_dirs), say) if wanted is None else 0
    faults += _tell(
        _gone(disk, {name: known for name, known in noted.items() if wanted in (None, name) and name not in paths}), say
    )
    topic_ids = _held(disk)
    for name, path in paths.items() if wanted is None else [(wanted, paths.get(wanted, wanted))]:
        if not disk.exists(path):
            continue
        topic_id = topic_ids.get(name, findings.NOTHING_KNOWN.topic_id)
        known = noted.get(name, findings.NOTHING_KNOWN)._replace(was_killed=killed, topic_id=topic_id)
        found = _tell(check.check_partition(disk, path, known, format07), say)
        if found and options.repair:
            for sentence in repairs.repair_partition(disk, path, RealClock().now(), known, format07):
                say({"kind": "repaired", "path": path, "sentence": sentence}, f"repaired: {sentence}")
            known = check.load_known(disk, path)._replace(was_killed=killed, topic_id=topic_id)
            found = _faults(check.check_partition(disk, path, known, format07))
        faults += found
    own_path = None if wanted is None else paths.get(wanted, wanted)
    faults += _check_journals(disk, own_path, paths, noted, topic_ids, options, killed=killed)
    if not options.json:
        print(_verdict(faults, options.repair))
    return 1 if faults else 0


def _check_journals(
    disk: RealDisk,
    wanted: str | None,
    paths: Mapping[str, str],
    noted: Mapping[str, Known],
    topic_ids: Mapping[str, bytes],
    options: argparse.Namespace,
    *,
    killed: bool,
) -> int:
    """Compare the journals with the partitions' logs, which are repaired before. Return the number of faults."""
    from ottla.log.check.journal_check import accept_losses, find_in_journals, read_journals
    from ottla.net.clock import RealClock

    say = _printer(options.json)
    report = read_journals(disk, disk.log_dirs, paths, noted, topic_ids)
    found = _tell(find_in_journals(report, wanted, was_killed=killed), say)
    if found and options.repair:
        for sentence in accept_losses(disk, report, RealClock().now(), noted, wanted):
            say({"kind": "repaired", "path": sentence.partition(":")[0], "sentence": sentence}, f"repaired: {sentence}")
        report = read_journals(disk, disk.log_dirs, paths, noted, topic_ids)
        found = _faults(list(find_in_journals(report, wanted, was_killed=killed)))
    return found


def _gone(disk: RealDisk, gone: Mapping[str, Known]) -> Iterator[Finding]:
    """Yield a finding for each partition that held records and has no directory.

    It is damage, unless the topic may have been deleted.
    """
    from ottla.log.check.findings import DAMAGED, NOTE, Finding

    held = _held(disk) if gone else {}
    for path, end_offset in sorted((path, known.recovery_point) for path, known in gone.items()):
        if end_offset:
            way_out = "or delete the topic" if path in held else "unless the topic was deleted"
            sentence = f"its directory is missing, and it had records below offset {end_offset}: restore it, {way_out}."
            yield Finding(DAMAGED if path in held else NOTE, path, -1, sentence)


def _held(disk: RealDisk) -> Mapping[str, bytes]:
    """Return the partitions of all topics, each with the topic id. Return no partitions if the registry is damaged."""
    from ottla.cluster.image import ClusterImage
    from ottla.cluster.registry_entries import load
    from ottla.ports import RegistryDamaged
    from ottla.registry.generations import find

    image = ClusterImage()
    try:
        found = find(disk)
        if found is not None:
            load(image, found.best.tree)
    except RegistryDamaged:  # `ottla registry check` reports the damage
        return {}
    return {f"{topic.name}-{one.index}": topic.topic_id for topic in image.topics.values() for one in topic.partitions}


def _verdict(faults: int, repaired: bool) -> str:
    if not faults:
        return "Nothing is damaged."
    return "There are findings: " + (
        "the remaining ones cannot be repaired by this command." if repaired else "run this command with --repair."
    )


def _faults(findings: list[Finding]) -> int:
    from ottla.log.check.findings import FAULTS

    return sum(found.kind in FAULTS for found in findings)


def _tell(findings: Iterable[Finding], say: Callable[[Row, str], None]) -> int:
    listed: list[Finding] = list(findings)
    for kind, path, position, sentence in listed:
        where = f"{path}, byte {position}" if position >= 0 else path
        say({"kind": kind, "path": path, "position": position, "sentence": sentence}, f"{kind}: {where}: {sentence}")
    return _faults(listed)


def run_dump(options: argparse.Namespace) -> int:
    from ottla.cli.command.exits import MISUSED, fail
    from ottla.log.check.dump import dump
    from ottla.ports import StorageFailed

    if not os.path.exists(options.path):
        return fail(f"{options.path} does not exist: name a file of a log, or a directory.", MISUSED)
    paths = list(_files(os.path.abspath(options.path)))
    if not paths:
        return fail(f"{options.path} has no files of a log: name a data directory, a partition's directory in it, or a file.")
    say, errors = _printer(options.json), 0
    root = os.path.dirname(os.path.abspath(options.path))
    try:
        with _disk(root, is_read_only=True) as disk:
            for path in paths:
                if not options.json:
                    print(f"{path}:")
                topic = os.path.basename(os.path.dirname(path)).rpartition("-")[0]
                for row in dump(disk, os.path.relpath(path, root), deep=options.deep, topic=topic):
                    errors += "error" in row
                    say({"file": path} | row, "  " + _line(row))
    except StorageFailed as failure:
        return fail(f"{root}/{failure}: it cannot be read; make it readable for this user.")
    except BrokenPipeError:
        sys.stderr.close()  # the reader, such as head, has closed the pipe
        return 0
    return 1 if errors else 0


def _line(row: Row) -> str:
    records = row.pop("records", None) or row.pop("entries", [])
    return "\n".join([_fields(row), *("    " + _fields(record) for record in records)])


def _fields(row: Row) -> str:
    return ", ".join(f"{name}: {json.dumps(value) if isinstance(value, dict) else value}" for name, value in row.items())


def _files(path: str) -> Iterator[str]:
    """Yield the file, or the log's files in a directory."""
    from ottla.log.journal.format import JOURNAL, NAMES
    from ottla.log.names import LEADER_EPOCHS, parse_file_name

    if os.path.isfile(path):
        yield path
        return
    for directory, below, names in os.walk(path):
        below.sort()
        for name in sorted(names):
            is_of_journal = name in NAMES and os.path.basename(directory) == JOURNAL
            if parse_file_name(name) or name == LEADER_EPOCHS or name.endswith("-offset-checkpoint") or is_of_journal:
                yield os.path.join(directory, name)


def _place(directory: str) -> tuple[str, str | None]:
    """Split a path into (data directory, None), or, for one partition's directory, (data directory, its name)."""
    path = os.path.abspath(directory)
    parent, name = os.path.split(path)
    if not os.path.exists(os.path.join(path, "meta.properties")) and os.path.exists(os.path.join(parent, "meta.properties")):
        return parent, name
    return path, None


def _disk(root: str, *, is_read_only: bool = False) -> closing[RealDisk]:
    from contextlib import closing

    from ottla.net.disk.disk import RealDisk
    from ottla.net.disk.system_calls import reading_system
    from ottla.net.startup.data_directory import log_dirs_in

    system = reading_system() if is_read_only else os
    return closing(RealDisk(root, lambda call: call(), system=system, log_dirs=list(log_dirs_in(root).values())))


def _printer(as_json: bool) -> Callable[[Row, str], None]:
    return (lambda row, text: print(json.dumps(row))) if as_json else (lambda row, text: print(text))
