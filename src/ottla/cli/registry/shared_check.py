"""`ottla registry check ADDRESS`: the check of a shared registry. The package of the registry's kind reads it."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.registry.tree import Tree

Say = Callable[[str, str, str], None]
MEND = "repair it with ZooKeeper's own tools, or remove it"
PUT_BACK = "restore a backup of the registry's directory"


def check(options: argparse.Namespace, say: Say) -> int:
    """Report entries that are damaged, unknown or missing; return the exit code."""
    from ottla.broker.membership.membership import NotAMember
    from ottla.cli.command.exits import fail
    from ottla.ports import RegistryDamaged, StorageFailed

    try:
        found, faults, remedy = _read(options)
    except NotAMember as error:
        return fail(str(error))
    except RegistryDamaged as damage:
        return fail(f"{options.directory}: {damage}.")
    except StorageFailed as failure:
        return fail(f"{options.directory} was not read ({failure}): try again when it is available.")
    for path, reason in faults:
        say("damaged", path, f"{reason}.")
    strange = [*_strange(found, remedy)]
    for path, sentence in strange:
        say("strange", path, sentence)
    if not faults and not strange and not options.json:
        print("Nothing is damaged.")
    return 1 if faults or strange else 0


def _read(options: argparse.Namespace) -> tuple[Tree, list[tuple[str, str]], str]:
    """Return the entries that can be read, the faults, and what to do about entries that cannot be decoded."""
    import asyncio

    from ottla.broker.settings.broker_zookeeper import HOST_SCHEME
    from ottla.cli.serve import given
    from ottla.net.offline.registry_copy import read_tree
    from ottla.net.sqlite.tables import survey

    address = options.directory
    directory = address.removeprefix(HOST_SCHEME)
    if directory == address:
        return asyncio.run(read_tree(address, given(None, options.set))), [], MEND
    found = survey(directory)
    return found.tree, found.faults, PUT_BACK


def _strange(found: Tree, remedy: str) -> Iterator[tuple[str, str]]:
    """Yield entries that brokers cannot decode, and missing entries, each with a sentence."""
    from ottla.cluster import layout
    from ottla.cluster.image import ClusterImage
    from ottla.cluster.registry_entries import load_all

    image = ClusterImage()
    for path, error in load_all(image, found):
        yield path, f"it cannot be parsed ({error}): {remedy}."
    for name, topic in image.topics.items():
        for one in topic.partitions:
            if not one.replicas:
                yield layout.topic_path(name), f"partition {one.index} has no replicas: {remedy}."
    entry = found.get(layout.CLUSTER_ID)
    if entry is None:
        yield layout.CLUSTER_ID, "it does not exist: the first broker of release 0.10.1 or later creates a cluster."
