"""`ottla registry copy`: the copy of a registry from one place to another. `ottla.net.offline.registry_copy` makes it."""

from __future__ import annotations

import argparse

from ottla.cli.command.parser import Example, Parser

COPY = """Copy a registry, which stays as it is. From a data directory to an address: a broker by itself becomes the first of a
cluster, with all its topics, records and settings. From an address to a data directory: a broker of the cluster that has everything
goes on by itself. From one address to another: all brokers move there. An address is zookeeper://HOST:PORT,HOST:PORT/PATH, where
there is no cluster yet if it is written to, or sqlite:DIR for the brokers of one host. No broker may run on either side."""
EXAMPLES = (
    Example("registry copy data sqlite:registry", "A broker by itself becomes the first of several on this host."),
    Example("registry copy sqlite:registry sqlite:elsewhere", "The brokers move to another registry."),
    Example("registry copy sqlite:registry data", "A broker that has everything goes on by itself."),
)


def build(command: Parser) -> None:
    command.description = COPY
    command.examples = EXAMPLES
    command.add_argument("source", metavar="FROM", help="a data directory, or an address")
    command.add_argument("target", metavar="TO", help="an address, or the data directory of a broker of the cluster")
    command.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting zookeeper.* of the brokers")
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    from ottla.broker.membership.membership import NotAMember
    from ottla.cli.command.exits import fail
    from ottla.cli.serve import given
    from ottla.cluster.registry_copy import NotCarried
    from ottla.errors import SettingError
    from ottla.net.offline.registry_copy import copy, is_shared
    from ottla.net.startup.data_directory import DataDirectoryError
    from ottla.ports import RegistryDamaged, StorageFailed

    source, target = options.source, options.target
    for place in (source, target):
        if "://" in place and not is_shared(place):
            raise SettingError(f"{place!r} is not an address: write zookeeper://HOST:PORT/PATH or sqlite:DIR, or name a directory.")
    try:
        count = copy(source, target, given(None, options.set))
    except (DataDirectoryError, NotAMember, NotCarried) as error:
        return fail(str(error))
    except RegistryDamaged as damage:
        return fail(f"{source}: {damage}.")
    except StorageFailed as failure:
        return fail(f"The registry was not copied ({failure}): repair that, and run this command again.")
    if not is_shared(target):
        then = f"Start the broker with --data-dir {target}, and without --registry."
    elif is_shared(source):
        then = f"Start the brokers with --registry {target}, and with their data directories."
    else:
        then = f"Start the broker with --data-dir {source} --registry {target}."
    print(f"{count} entries were copied. {then}")
    return 0
