"""The removal of groups and of their members: `ottla group delete` and `remove-member`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ottla.cli.command import confirm
from ottla.cli.command.exits import MISUSED, fail
from ottla.cli.command.output import as_lines, show
from ottla.cli.group.descriptions import assignment_text
from ottla.cli.group.lag import describe_existing
from ottla.cli.group.seek import members_text
from ottla.errors import KafkaError

if TYPE_CHECKING:
    from ottla.client.admin.groups import GroupDescription, GroupMember
    from ottla.net.client.admin.admin import Admin


def delete(admin: Admin, options: argparse.Namespace) -> int:
    """Delete groups after a confirmation. Return 1 if any was refused."""
    groups = describe_existing(admin, dict.fromkeys(options.groups))
    for group in groups.values():
        if group.members:
            return fail(f"Group {group.group_id} {members_text(group)}: stop them, then try again.")
    if not options.dry_run:
        names = list(groups)
        noun = f"group {names[0]} with its" if len(names) == 1 else f"{len(names)} groups ({', '.join(names)}) with their"
        effect = f"This deletes {noun} committed offsets."
        unconfirmed = confirm.refused(options, effect, names[0] if len(names) == 1 else str(len(names)))
        if unconfirmed is not None:
            return unconfirmed
    from ottla.client.errors import BrokerError

    code = 0
    for name in groups:
        try:
            if not options.dry_run:
                admin.delete_groups(name)
        except BrokerError as error:
            code = fail(str(error))
            continue
        if options.json:
            print(*as_lines([{"group": name, "result": "deleted", "dry_run": options.dry_run}]), flush=True)
        else:
            print(f"Group {name} {'would be' if options.dry_run else 'is'} deleted.", flush=True)
    return code


def remove_members(admin: Admin, options: argparse.Namespace) -> int:
    if options.all == bool(options.members or options.instance):
        return fail("name members, give --instance, or give --all.", MISUSED)
    group = describe_existing(admin, [options.group])[options.group]
    members = group.members if options.all else _find(group, options.members, options.instance)
    if not members and not options.json:
        print(f"Group {group.group_id} has no members.")
        return 0
    if members and not options.dry_run:
        admin.remove_members(group.group_id, [member.member_id for member in members])
    rows = [
        (group.group_id, each.member_id, each.group_instance_id, each.client_id, each.client_host, assignment_text(each.assignment))
        for each in members
    ]
    show(("group", "member", "instance", "client", "host", "partitions"), rows, as_json=options.json)
    return 0


def _find(group: GroupDescription, names: Sequence[str], instances: Sequence[str]) -> list[GroupMember]:
    """Return the members with these ids, or with ids that begin so, and those with these instance ids. Raises `KafkaError`."""
    found: dict[str, GroupMember] = {}
    for name in names:
        exact = [each for each in group.members if each.member_id == name]
        matches = exact or [each for each in group.members if each.member_id.startswith(name)]
        if len(matches) > 1:
            raise KafkaError(f"{len(matches)} members of group {group.group_id} have ids that begin with {name}: name more of it.")
        found |= {each.member_id: each for each in matches or [_missing(group, f"member {name}")]}
    for name in instances:
        matches = [each for each in group.members if each.group_instance_id == name]
        found |= {each.member_id: each for each in matches or [_missing(group, f"member with the instance id {name}")]}
    return list(found.values())


def _missing(group: GroupDescription, name: str) -> GroupMember:
    raise KafkaError(f"Group {group.group_id} has no {name}: `ottla group describe {group.group_id} -m` lists its members.")
