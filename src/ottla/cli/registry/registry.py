"""`ottla registry`: the check of a data directory's registry, its restoration and copy, and the acceptance of a lost directory.

`ottla.registry.survey` and `ottla.broker.topics.adoption` do the work.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.cli.command.parser import Example
from ottla.cli.registry import accept_loss, copy, shared_check

if TYPE_CHECKING:
    from contextlib import closing

    from ottla.broker.topics.directories import PartitionDirectories
    from ottla.cli.command.parser import Parser
    from ottla.cluster.image import ClusterImage
    from ottla.net.disk.disk import RealDisk
    from ottla.ports import Entries
    from ottla.registry.journal import JournalRegistry
    from ottla.registry.lines import JournalReading

Say = Callable[[str, str, str], None]

CHECK = """Read every copy of a data directory's registry, and hold the directories of partitions and the recovery points against
it: which partitions it does not know, and which are gone. No broker may run on the directory. Of a registry that brokers share,
which may be at work, zookeeper://HOST:PORT/PATH or sqlite:DIR: look for damage, and for entries that cannot be parsed. Nothing
is changed. Exit code 1: there are findings."""
RESTORE = """Restore the most complete copy of a damaged registry, up to its first damage, or the one named by --from; the
damaged files are kept as registry.damaged.N. Partitions without an entry become topics again with --adopt, or get names that
end with -stray with --set-aside. No broker may run on the directory. Exit code 1: the output names what is left to do."""

MISSED = "it does not exist, although there are partitions: `ottla registry restore` creates it."
OLD = (
    "registry.sqlite is the registry of an earlier version: start a broker, which takes it over; if it is damaged and there is no "
    "backup of it, move it elsewhere and call this again"
)
WAYS_OUT = "call `ottla registry restore` with --adopt or --set-aside, or move it elsewhere"

PUT_BACK = "put it back, or delete the topic"
LOST = "if nobody deleted it, put a backup of the data directory in place of this one"

PRODUCER_IDS = 1_000_000_000
"""The number of producer ids to skip after registry changes were lost, because some of these ids may be in use."""
CHECK_EXAMPLES = (
    Example("registry check data", "The registry of a stopped broker, and directories of partitions without an entry in it."),
    Example("registry check sqlite:registry", "The registry of the brokers of one host."),
    Example("registry check data --json", "An object for each finding."),
)
RESTORE_EXAMPLES = (
    Example("registry restore data", "Put back the most complete copy."),
    Example("registry restore data --adopt", "Also create topics for partitions that it does not know."),
    Example("registry restore data --set-aside", "Or rename the directories of these partitions."),
)


def build(parser: Parser) -> None:
    own = parser.group()
    check = own.add("check", "find damage, and partitions without an entry", description=CHECK, examples=CHECK_EXAMPLES)
    check.add_argument("directory", metavar="DIR", help="a data directory, or the address of a shared registry")
    check.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting zookeeper.* of the brokers")
    check.add_argument("--json", action="store_true", help="print a JSON object for each finding, on a line of its own")
    check.set_defaults(run=run_check)
    copy.build(own.add("copy", "copy a registry into a cluster, out of one, or elsewhere"))
    accept_loss.build(own.add("accept-loss", "permit the start of a broker whose data directory is lost"))
    restore = own.add("restore", "restore a copy", description=RESTORE, examples=RESTORE_EXAMPLES)
    restore.add_argument("directory", metavar="DIR", help="a data directory")
    restore.add_argument("--from", dest="source", metavar="FILE", help="the journal to restore (default: the most complete one)")
    restore.add_argument("--adopt", action="store_true", help="create topics for partitions without an entry")
    restore.add_argument("--set-aside", action="store_true", help="rename the directories of partitions without an entry")
    restore.set_defaults(run=run_restore)


def run_check(options: argparse.Namespace) -> int:
    from ottla.net.offline.registry_copy import is_shared

    if is_shared(options.directory):
        return shared_check.check(options, _printer(options.json))
    return _on_disk(options.directory, lambda disk, node_id: _check(disk, _printer(options.json), options.json))


def run_restore(options: argparse.Namespace) -> int:
    return _on_disk(options.directory, lambda disk, node_id: _restore(disk, node_id, options))


def _on_disk(directory: str, work: Callable[[RealDisk, int], int]) -> int:
    from ottla.cli.command.exits import fail
    from ottla.net.startup.data_directory import DataDirectoryError, lock
    from ottla.ports import RegistryDamaged, StorageFailed

    try:
        with lock(directory) as properties, _disk(directory) as disk:
            return work(disk, int(properties.get("node.id") or properties["broker.id"]))
    except DataDirectoryError as error:
        return fail(str(error))
    except RegistryDamaged as damage:
        return fail(f"{directory}: {damage}.")
    except StorageFailed as failure:
        return fail(f"{directory}/{failure}: repair that, and run this command again.")


def _check(disk: RealDisk, say: Say, is_json: bool) -> int:
    from ottla.net.startup.data_directory import OLD_REGISTRY
    from ottla.ports import RegistryDamaged
    from ottla.registry import count
    from ottla.registry.generations import find
    from ottla.registry.survey import survey
    from ottla.registry.tree import Tree

    if _is_old(disk):
        say("older", OLD_REGISTRY, "the registry of an earlier version: the next start of a broker takes it over.")
        return 0
    faults = [_tell(one, say) for one in survey(disk)]
    if count.is_damaged(disk):
        say("damaged", count.COUNT, "it was changed since it was written; the next start rewrites it from the journals.")
        faults.append(True)
    try:
        found = find(disk)
    except RegistryDamaged as damage:
        say("refused", "", f"{damage}.")
        return 1
    tree = Tree() if found is None else found.best.tree
    strangers = _strangers(disk, tree)
    if found is None:
        say("missing", "registry", MISSED if strangers else "it does not exist yet: the first start creates it.")
    for directory in strangers:
        say("unknown", directory, f"the registry has no entry for this partition: {WAYS_OUT}.")
    faults.append(bool(strangers))
    faults.append(_tell_gone(disk, tree, say))
    if not any(faults) and not is_json:
        print("Nothing is damaged.")
    return 1 if any(faults) else 0


def _tell_gone(disk: RealDisk, entries: Entries, say: Say) -> bool:
    """Report partitions that held records and whose directories are missing.

    Return whether any of these partitions was certainly not deleted.
    """
    from ottla.cluster.controller_rules.entries import DELETIONS
    from ottla.log.checkpoints import CLEAN_SHUTDOWN

    held, deleted = _image(entries).partition_names(), entries.children(DELETIONS)
    was_clean = disk.exists(CLEAN_SHUTDOWN)
    missing = _directories(disk).find_missing(deleted)
    for name, offset in missing.items():
        if name in held:
            say("missing", name, f"it had records below offset {offset}, and its directory is missing: {PUT_BACK}.")
        elif was_clean:
            say("missing", name, f"it had records below offset {offset}, and has neither a topic nor a directory: {LOST}.")
        else:
            say("gone", name, f"it had records below offset {offset}; it was deleted since then, or is lost: {LOST}.")
    return any(name in held or was_clean for name in missing)


def _tell(reading: JournalReading, say: Say) -> bool:
    from ottla.registry.generations import fault

    if reading.newer_format:
        say("newer", reading.path, f"it has format {reading.newer_format}, which this version cannot read.")
        return True
    if reading.is_whole:
        kind = "older" if reading.continued else "whole"
        say(kind, reading.path, f"{reading.commits} commits, {len(reading.tree)} entries.")
        return False
    what = f"usable up to commit {reading.commits}" if reading.commits >= 0 else "no part of it is usable"
    say("damaged", reading.path, f"it {fault(reading)}; {what}.")
    return True


def _is_old(disk: RealDisk) -> bool:
    """Return whether the registry has the format of an older version. Only the start of a broker can convert it."""
    from ottla.net.startup.data_directory import OLD_REGISTRY
    from ottla.registry.generations import is_begun

    return disk.exists(OLD_REGISTRY) and not is_begun(disk)


def _restore(disk: RealDisk, node_id: int, options: argparse.Namespace) -> int:
    from ottla.ports import RegistryDamaged
    from ottla.registry.journal import JournalRegistry

    if _is_old(disk):
        raise RegistryDamaged(OLD)
    lost = _put_back(disk, options.source)
    registry = JournalRegistry.open(disk)
    try:
        if lost or _strangers(disk, registry):
            _leave_out_producer_ids(registry, node_id)  # a registry that lacks topics may lack blocks of producer ids, too
        if options.adopt:
            _adopt(disk, registry, node_id)
        left = _strangers(disk, registry)
        if options.set_aside and left:
            _set_aside(disk, left)
            left = []
    finally:
        registry.close()
    for directory in left:
        print(f"{directory} belongs to no topic of the registry: {WAYS_OUT}.")
    if not left:
        print("The broker can be started.")
    return 1 if left else 0


def _put_back(disk: RealDisk, source: str | None) -> bool:
    """Restore a copy of the registry if it is damaged, or if `source` names one. Return whether changes may be lost."""
    from ottla.ports import RegistryDamaged
    from ottla.registry.generations import find
    from ottla.registry.survey import best_of, finish, put_back, survey

    if finish(disk):
        print("An earlier run was interrupted: its prepared copy is restored first.")
    if source is None:
        try:
            if find(disk) is not None:
                return False
            print("There is no copy of the registry: creating an empty one.")
            return True
        except RegistryDamaged as damage:
            readings = survey(disk)
            if any(one.newer_format for one in readings):
                raise
            best = best_of(readings)
            print(f"A start would be refused: {str(damage).partition(': `')[0]}.")
    else:
        best = _read(source)
    if best is None:
        from ottla.registry.tree import Tree

        kept = put_back(disk, Tree(), 0)
        done = "No part of it is readable: creating an empty one"
    else:
        kept = put_back(disk, best.tree, best.commits)
        done = f"Restored from {best.path} up to commit {best.commits}"
    print(done + (f"; the damaged files are kept as {' and '.join(kept)}." if kept else "."))
    print("Later changes of topics and settings are lost; the findings of the partitions' directories follow.")
    return True


def _read(source: str) -> JournalReading:
    from ottla.ports import RegistryDamaged
    from ottla.registry import lines

    try:
        with open(source, "rb") as file:
            reading = lines.read(source, file.read())
    except OSError as error:
        raise RegistryDamaged(f"{source} cannot be read ({error.strerror}): name a journal with --from") from error
    if reading.commits < 0:
        raise RegistryDamaged(
            f"{source} is not a journal of a registry, or damaged at byte {reading.fault}: name another with --from"
        )
    return reading


def _leave_out_producer_ids(registry: JournalRegistry, node_id: int) -> None:
    from ottla.cluster import layout
    from ottla.cluster.producer_ids import end_of
    from ottla.ports import Change

    entry = registry.get(layout.PRODUCER_ID_BLOCK)
    end = PRODUCER_IDS + (0 if entry is None else end_of(entry.value))
    registry.commit([Change(layout.PRODUCER_ID_BLOCK, layout.producer_id_block_json(node_id, end, end))])


def _adopt(disk: RealDisk, registry: JournalRegistry, node_id: int) -> None:
    from ottla.broker.topics.adoption import adopt

    for adoption in adopt(_image(registry), disk, _strangers(disk, registry), node_id, lambda: os.urandom(16)):
        registry.commit(adoption.changes)
        print(adoption.sentence)


def _image(entries: Entries) -> ClusterImage:
    from ottla.cluster.image import ClusterImage
    from ottla.cluster.registry_entries import load

    image = ClusterImage()
    load(image, entries)
    return image


def _directories(disk: RealDisk) -> PartitionDirectories:
    from ottla.broker.partitions.log_directories import LogDirectories
    from ottla.broker.topics.directories import PartitionDirectories

    places = LogDirectories(disk, disk.log_dirs)
    places.load()
    return PartitionDirectories(disk, os.urandom, places)


def _strangers(disk: RealDisk, entries: Entries) -> list[str]:
    from ottla.cluster.controller_rules.entries import DELETIONS

    return _directories(disk).strangers(_image(entries).partition_names(), entries.children(DELETIONS))


def _set_aside(disk: RealDisk, directories: list[str]) -> None:
    found = _directories(disk)
    for directory in directories:
        print(f"{directory} is kept as {found.set_aside(directory)}.")
    for one in found.to_sync():
        one.sync()


def _printer(as_json: bool) -> Say:
    if as_json:
        return lambda kind, path, sentence: print(json.dumps({"kind": kind, "path": path, "sentence": sentence}))
    return lambda kind, path, sentence: print(": ".join(filter(None, (kind, path, sentence))))


def _disk(root: str) -> closing[RealDisk]:
    from contextlib import closing

    from ottla.net.disk.disk import RealDisk
    from ottla.net.startup.data_directory import log_dirs_in

    return closing(RealDisk(root, lambda call: call(), log_dirs=list(log_dirs_in(root).values())))
