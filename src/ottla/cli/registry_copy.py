"""`ottla registry copy`: take the registry of a broker by itself along into a cluster. Thin: `ottla.net.copying` does the work."""

from __future__ import annotations

import argparse

Commands = argparse._SubParsersAction  # argparse has no public name for what add_subparsers returns

COPY = """Copy the registry of a broker by itself, which stays as it is, to where no cluster is yet, such as a path in ZooKeeper.
The broker then goes on with all its topics, records and settings as the first of a cluster: `ottla serve --data-dir DIR --registry
ADDRESS`. No broker may run on the directory."""


def add_to(commands: Commands[argparse.ArgumentParser]) -> None:
    command = commands.add_parser("copy", help="take it along into a cluster", description=COPY)
    command.add_argument("directory", metavar="DIR", help="the data directory of a broker by itself")
    command.add_argument(
        "address", metavar="ADDRESS", help="where to: zookeeper://HOST:PORT,HOST:PORT/PATH, or sqlite:DIR for brokers of this host"
    )
    command.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting zookeeper.* of the broker")
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    from ottla.broker.membership.membership import NotAMember
    from ottla.broker.settings import BrokerSettings, SettingError, registry_settings
    from ottla.cli.exits import MISUSED, fail
    from ottla.cli.serve import given
    from ottla.net.copying import copy_to_cluster
    from ottla.net.datadir import DataDirectoryError
    from ottla.ports import RegistryDamaged, StorageFailed

    try:
        settings = BrokerSettings.parse(given(None, options.set) | registry_settings(options.address))
        count = copy_to_cluster(options.directory, settings)
    except SettingError as error:
        return fail(str(error), MISUSED)
    except (DataDirectoryError, NotAMember) as error:
        return fail(str(error))
    except RegistryDamaged as damage:
        return fail(f"{options.directory}: {damage}.")
    except StorageFailed as failure:
        return fail(f"The registry was not copied ({failure}): mend that, and call this again.")
    print(f"{count} entries are copied. Start the broker with --data-dir {options.directory} --registry {options.address}.")
    return 0
