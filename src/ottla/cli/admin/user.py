"""`ottla user`: SCRAM users of any Kafka broker (KIP-554). Passwords come only from a prompt or standard input.

`net.client.admin` sends requests to a cluster, and `net.offline.stopped_broker` changes the data directory of a stopped broker.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from ottla.cli.admin.cluster_or_directory import add_options, on_cluster_or_directory
from ottla.cli.command import confirm
from ottla.cli.command.exits import MISUSED, fail
from ottla.cli.command.output import as_lines, show
from ottla.cli.command.parser import Example

if TYPE_CHECKING:
    from ottla.cli.admin.cluster_or_directory import Asked
    from ottla.cli.command.parser import Parser

ADD = """Set the SCRAM password of a user, new or existing. The password is read at a terminal, or from the
first line of standard input: it is never in the list of processes. With --data-dir, before the broker is started,
the first user of a broker that requires authentication is added."""
REMOVE = "Remove the SCRAM credential of a user. Open connections of the user stay open."
LIST = "List the users with SCRAM credentials, with their mechanisms and iterations."
ADD_EXAMPLES = (
    Example("user add alice", "Ask for the password, or read it from standard input."),
    Example("user add alice --mechanism SCRAM-SHA-512", "For clients with this mechanism."),
    Example("user add admin --data-dir data", "The first user of a broker, before its first start."),
)
REMOVE_EXAMPLES = (
    Example("user remove alice", "The user can no longer log in."),
    Example("user remove alice --mechanism SCRAM-SHA-512", "Only the password of this mechanism."),
    Example("user remove admin --data-dir data", "From the directory of a stopped broker."),
)
LIST_EXAMPLES = (
    Example("user list", "All users with their mechanisms, without passwords."),
    Example("user list alice", "One user."),
    Example("user list --json", "An object for each user and mechanism."),
)


def build(parser: Parser) -> None:
    own = parser.group()
    add = own.add("add", "set the password of a user", description=ADD, examples=ADD_EXAMPLES)
    add.add_argument(
        "--iterations", type=int, help="4096 (the default) to 16384; more make guessing, and each authentication, slower"
    )
    add.set_defaults(run=_add)
    remove = own.add("remove", "remove a user", description=REMOVE, examples=REMOVE_EXAMPLES)
    remove.set_defaults(run=on_cluster_or_directory(_remove))
    for each in (add, remove):
        each.add_argument("name", metavar="NAME", help="the user, as in User:NAME of ACLs")
        each.add_argument("--mechanism", metavar="MECHANISM", help="SCRAM-SHA-256 (the default) or SCRAM-SHA-512")
    listing = own.add("list", "list users", description=LIST, examples=LIST_EXAMPLES)
    listing.add_argument("names", metavar="NAME", nargs="*", help="only these users")
    listing.set_defaults(run=on_cluster_or_directory(_list))
    for each in (add, remove, listing):
        add_options(each, is_new=each is add)


def _add(options: argparse.Namespace) -> int:
    password = _password(options.name)
    if password is None and not _is_typed():
        return fail("standard input is empty: write the password to its first line.", MISUSED)
    if password is None:
        return fail("the two passwords differ, or are empty: try again.", MISUSED)
    return on_cluster_or_directory(lambda admin, options: _set(admin, options, password))(options)


def _password(name: str) -> str | None:
    """Return a password that is typed twice, or read from the first line of standard input.

    Return None if the typed passwords differ, or the password is empty.
    """
    if sys.stdin is None:
        return None
    if not _is_typed():
        return sys.stdin.readline().rstrip("\r\n") or None
    first = confirm.read_password(f"Password for {name}: ")
    return first if first and confirm.read_password("Once more: ") == first else None


def _is_typed() -> bool:
    """Return whether standard input is a terminal. Python sets standard input to None if it is closed."""
    return sys.stdin is not None and sys.stdin.isatty()


def _set(admin: Asked, options: argparse.Namespace, password: str) -> int:
    given = {"mechanism": options.mechanism} if options.mechanism else {}
    count = {} if options.iterations is None else {"iterations": options.iterations}
    admin.set_user_password(options.name, password, **given, **count)
    return _say(options, f"The password of {options.name} is set.")


def _remove(admin: Asked, options: argparse.Namespace) -> int:
    admin.remove_user(options.name, **({"mechanism": options.mechanism} if options.mechanism else {}))
    return _say(options, f"User {options.name} is removed.")


def _say(options: argparse.Namespace, sentence: str) -> int:
    (line,) = as_lines([{"name": options.name}]) if options.json else [sentence]
    print(line)
    return 0


def _list(admin: Asked, options: argparse.Namespace) -> int:
    rows = [
        (user, mechanism, count) for user, kinds in admin.list_users(*options.names).items() for mechanism, count in kinds.items()
    ]
    if not rows and options.names:
        return fail(f"There is no SCRAM user {' or '.join(options.names)}: `ottla user list` lists all.")
    if not rows and not options.json:
        print("There are no SCRAM users: `ottla user add NAME` adds one.")
        return 0
    names = ("name", "mechanism", "iterations")
    show(names, rows, as_json=options.json)
    return 0
