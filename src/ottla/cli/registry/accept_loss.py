"""`ottla registry accept-loss`: lets a broker start without its data directory. `net.offline.lost_directories` does the work."""

from __future__ import annotations

import argparse

from ottla.cli.command.parser import Example, Parser

ACCEPT = """Accept that the data directory of a broker of a cluster is lost: its next start with an empty or older one is not
refused. It leaves the in-sync sets first, so that other replicas lead, those in sync if there are any. Records that only the lost
directory had are gone then. ADDRESS is zookeeper://HOST:PORT,HOST:PORT/PATH or sqlite:DIR. The broker may not run."""
EXAMPLES = (Example("registry accept-loss sqlite:registry --node-id 1", "Broker 1 may start with an empty directory."),)


def build(command: Parser) -> None:
    command.description = ACCEPT
    command.examples = EXAMPLES
    command.add_argument("address", metavar="ADDRESS", help="the address of the shared registry")
    command.add_argument("--node-id", type=int, required=True, metavar="N", help="the broker whose data directory is lost")
    command.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting zookeeper.* of the brokers")
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    from ottla.broker.membership.membership import NotAMember
    from ottla.cli.command.exits import MISUSED, fail
    from ottla.cli.serve import given
    from ottla.net.offline.lost_directories import accept
    from ottla.net.offline.registry_copy import is_shared
    from ottla.ports import RegistryDamaged, StorageFailed

    if not is_shared(options.address):
        return fail(
            f"{options.address} is not the address of a shared registry: name zookeeper://HOST:PORT/PATH or sqlite:DIR.", MISUSED
        )
    try:
        loss = accept(options.address, options.node_id, given(None, options.set))
    except NotAMember as error:
        return fail(str(error))
    except RegistryDamaged as damage:
        return fail(f"{options.address}: {damage}.")
    except StorageFailed as failure:
        return fail(f"Nothing was accepted ({failure}): repair that, and run this command again.")
    print(
        f"Accepted: at its next start broker {options.node_id} leaves its in-sync sets ({loss.in_sync}); "
        f"in {loss.alone} of them it is alone, and the records that only it had are lost."
    )
    return 0
