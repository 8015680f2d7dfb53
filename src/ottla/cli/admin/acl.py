"""`ottla acl`: the ACLs of any Kafka broker whose authorizer stores ACLs.

`net.client.admin` sends requests to a cluster, and `net.offline.stopped_broker` changes the data directory of a stopped broker.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ottla.cli.admin.cluster_or_directory import add_options, on_cluster_or_directory
from ottla.cli.command.arguments import principal
from ottla.cli.command.output import show
from ottla.cli.command.parser import Example

if TYPE_CHECKING:
    from ottla.cli.admin.cluster_or_directory import Asked
    from ottla.cli.command.parser import Parser
    from ottla.client.admin.acls import AclRule

ADD = """Add an ACL: ottla acl add User:alice read topic flights. It is in force when the command ends. One that denies goes before
all that allow."""
REMOVE = "Remove an ACL, given as it was added."
LIST = "List the ACLs: all, or those of a principal or a resource."
ADD_EXAMPLES = (
    Example("acl add User:alice read topic flights", "Alice may read a topic."),
    Example("acl add User:alice write topic flights- --prefixed", "And write all topics whose names begin so."),
    Example("acl add User:bob all topic flights --deny --host 127.0.0.1", "Bob may do nothing with it from this address."),
)
REMOVE_EXAMPLES = (
    Example("acl remove User:alice read topic flights", "Take back the ACL with exactly these values."),
    Example("acl remove User:alice write topic flights- --prefixed", "The one of a prefix."),
    Example("acl remove User:bob all topic flights --deny --host 127.0.0.1", "The one that denies."),
)
LIST_EXAMPLES = (
    Example("acl list", "All ACLs."),
    Example("acl list --principal User:alice", "What is allowed or denied to Alice."),
    Example("acl list --resource topic --name flights --json", "The ACLs of a topic, for programs."),
)


def build(parser: Parser) -> None:
    own = parser.group()
    add = own.add("add", "add an ACL", description=ADD, examples=ADD_EXAMPLES)
    add.set_defaults(run=on_cluster_or_directory(_add))
    remove = own.add("remove", "remove an ACL", description=REMOVE, examples=REMOVE_EXAMPLES)
    remove.set_defaults(run=on_cluster_or_directory(_remove))
    for each in (add, remove):
        each.add_argument("principal", metavar="PRINCIPAL", type=principal, help="the principal: User:NAME, or User:* for all")
        each.add_argument("operation", metavar="OPERATION", help="read, write, create, delete, alter, describe, all …")
        each.add_argument("resource", metavar="RESOURCE", help="topic, group, cluster, transactional-id, delegation-token or user")
        each.add_argument("name", metavar="NAME", help="the resource's name, * for all; kafka-cluster for the cluster")
        each.add_argument("--prefixed", action="store_true", help="all resources whose names have this prefix")
        each.add_argument("--host", default="*", metavar="ADDRESS", help="only from this address")
        each.add_argument("--deny", action="store_true", help="deny it instead of allowing it")
    listing = own.add("list", "list ACLs", description=LIST, examples=LIST_EXAMPLES)
    listing.add_argument("--principal", metavar="PRINCIPAL", type=principal, help="only ACLs of this principal")
    listing.add_argument("--resource", metavar="RESOURCE", help="only ACLs of this resource type")
    listing.add_argument("--name", metavar="NAME", help="only ACLs of this resource name")
    listing.set_defaults(run=on_cluster_or_directory(_list))
    for each in (add, remove, listing):
        add_options(each, is_new=each is add)


def _rule(options: argparse.Namespace) -> AclRule:
    from ottla.client.admin.acls import AclRule

    return AclRule(
        options.principal,
        options.operation,
        options.resource,
        options.name,
        "prefixed" if options.prefixed else "literal",
        options.host,
        "deny" if options.deny else "allow",
    )


def _add(admin: Asked, options: argparse.Namespace) -> int:
    rule = _rule(options)
    admin.create_acls([rule])
    return _say([rule], options)


def _remove(admin: Asked, options: argparse.Namespace) -> int:
    removed = admin.delete_acls([_rule(options)])
    if not removed and not options.json:
        print("There is no such ACL: `ottla acl list` lists the existing ones.")
        return 0
    return _say(removed, options)


def _list(admin: Asked, options: argparse.Namespace) -> int:
    rules = admin.list_acls(options.principal, options.resource, options.name)
    if not rules and not options.json:
        print("There are no such ACLs: `ottla acl add` adds one.")
        return 0
    return _say(rules, options)


def _say(rules: list[AclRule], options: argparse.Namespace) -> int:
    names = ("principal", "operation", "resource", "name", "pattern", "host", "permission")
    rows = [tuple(rule) for rule in rules]
    show(names, rows, as_json=options.json)
    return 0
