"""`ottla token`: delegation tokens, with which a program logs in as a user whose password it does not have (KIP-48)."""

from __future__ import annotations

import argparse
import sys
import time
from base64 import b64encode
from contextlib import suppress
from typing import TYPE_CHECKING

from ottla.cli.command import confirm
from ottla.cli.command.arguments import argument, principal
from ottla.cli.command.connection import add_options, on_cluster
from ottla.cli.command.output import Cell, as_lines, show
from ottla.cli.command.parser import Example
from ottla.errors import KafkaError
from ottla.inspection.times import duration_ms, format_time

if TYPE_CHECKING:
    from ottla.cli.command.parser import Commands, Parser
    from ottla.client.admin.tokens import TokenDescription
    from ottla.net.client.admin.admin import Admin

CREATE = """Create a delegation token for the user of this connection, or for --owner. A client logs in with it by SCRAM: the id is
the user name, the HMAC is the password, tokenauth="true" is added. The HMAC is printed once; it is a secret."""
LIST = "List the delegation tokens that this user may describe, without their HMACs."
RENEW = "Let a token live on, at most to its maximum lifetime: --by this much from now, or as long as the broker's default."
EXPIRE = "End a token at once, or --in some time. Its id is typed to confirm it, or --yes is given."
COLUMNS = ("id", "owner", "requester", "renewers", "issued", "expires", "ends at the latest")
VISIBLE_S = 3.0
"""The longest time that `token create` waits until a broker lists the token, in s."""
PAUSE_S = 0.1
SECRET = "The HMAC is a password of the owner and is not printed again: keep it where others cannot read it."


def build(parser: Parser) -> None:
    own = parser.group()
    _add_create(own)
    _add_list(own)
    renew = own.add("renew", "let a token live on", on_cluster(_renew), description=RENEW)
    renew.examples = (
        Example("token renew 5N1wHwNoRjmKRsTyE0y5nA", "Renew it for the broker's default time."),
        Example("token renew 5N1wHwNoRjmKRsTyE0y5nA --by 12h", "Let it expire in 12 hours."),
        Example("token renew 5N1wHwNoRjmKRsTyE0y5nA --json", "Print the new expiry in ms."),
    )
    renew.add_argument("--by", metavar="TIME", type=argument(_above_0), help="the time until it expires, such as 12h or 7d")
    expire = own.add("expire", "end a token", on_cluster(_expire), description=EXPIRE)
    expire.examples = (
        Example("token expire 5N1wHwNoRjmKRsTyE0y5nA", "Ask for the id, then end the token."),
        Example("token expire 5N1wHwNoRjmKRsTyE0y5nA --in 10m --yes", "End it in 10 minutes, without a question."),
        Example("token expire 5N1wHwNoRjmKRsTyE0y5nA --yes --json", "The same at once, for programs."),
    )
    expire.add_argument(
        "--in", dest="period", metavar="TIME", type=argument(duration_ms), help="the time until it ends (default: none)"
    )
    confirm.add_option(expire)
    for each in (renew, expire):
        each.add_argument("token", metavar="ID", help="the id of a token: see `ottla token list`")
        _add_common(each)


def _add_create(own: Commands) -> None:
    command = own.add("create", "create a token", on_cluster(_create), description=CREATE)
    command.examples = (
        Example("token create", "A token of this connection's user."),
        Example("token create --renewer User:scheduler --max-lifetime 7d", "Another user may renew it, for a week in all."),
        Example("token create --owner User:alice --json", "A token of another user, for whom this one may create tokens."),
    )
    command.add_argument("--owner", metavar="PRINCIPAL", type=principal, help="the user of the token, such as User:alice")
    help_text = "a user that may renew the token; can be repeated"
    command.add_argument("--renewer", metavar="PRINCIPAL", action="append", default=[], type=principal, help=help_text)
    help_text = "how long the token can live, however often it is renewed, such as 7d (default: the broker's maximum)"
    command.add_argument("--max-lifetime", metavar="TIME", type=argument(_above_0), help=help_text)
    _add_common(command)


def _add_list(own: Commands) -> None:
    command = own.add("list", "list tokens", on_cluster(_list), description=LIST)
    command.examples = (
        Example("token list", "All tokens that this user may describe."),
        Example("token list --owner User:alice", "The tokens of a user."),
        Example("token list --json --utc", "For programs."),
    )
    help_text = "only tokens of this user, such as User:alice; can be repeated"
    command.add_argument("--owner", metavar="PRINCIPAL", action="append", default=[], type=principal, help=help_text)
    _add_common(command)


def _add_common(command: Parser) -> None:
    command.add_argument("--utc", action="store_true", help="print times in UTC (default: local, with the zone)")
    add_options(command)


def _above_0(text: str) -> int:
    """Return a duration in ms. Raises `ValueError` for 0, which brokers read as their default."""
    if not (found := duration_ms(text)):
        raise ValueError(f"{text!r} is not a time above 0, such as 12h or 7d")
    return found


def _create(admin: Admin, options: argparse.Namespace) -> int:
    from ottla.client.admin.tokens import AT_ONCE_MS, BROKER_DEFAULT_MS

    lifetime = BROKER_DEFAULT_MS if options.max_lifetime is None else options.max_lifetime
    token = admin.create_delegation_token(owner=options.owner, renewers=options.renewer, max_lifetime_ms=lifetime)
    try:
        _print_token(token, options)
    except OSError:  # nobody has the secret
        with suppress(KafkaError):
            admin.expire_delegation_token(token.hmac, AT_ONCE_MS)
        raise
    print(f"ottla: {SECRET}", file=sys.stderr)
    with suppress(KafkaError):
        _wait(admin, token)
    return 0


def _print_token(token: TokenDescription, options: argparse.Namespace) -> None:
    hmac = b64encode(token.hmac).decode()
    if options.json:
        print(*as_lines([{**_object(token), "hmac": hmac}]), flush=True)
        return
    width = max(map(len, COLUMNS))
    for name, value in zip((*COLUMNS, "hmac"), (*_cells(token, options), hmac), strict=True):
        print(f"{name:{width}}  {'-' if value is None else value}", flush=True)


def _wait(admin: Admin, token: TokenDescription) -> None:
    """Wait until a broker lists a new token, so that the token can be used at once. KRaft brokers list it a little later."""
    deadline = time.monotonic() + VISIBLE_S
    while time.monotonic() < deadline:
        if any(each.token_id == token.token_id for each in admin.describe_delegation_tokens()):
            return
        time.sleep(PAUSE_S)


def _cells(token: TokenDescription, options: argparse.Namespace) -> tuple[Cell, ...]:
    times = (format_time(ms, utc=options.utc) for ms in (token.issue_ms, token.expiry_ms, token.max_ms))
    return (token.token_id, token.owner, token.requester or None, ",".join(token.renewers) or None, *times)


def _object(token: TokenDescription) -> dict[str, object]:
    values = (token.token_id, token.owner, token.requester or None, token.renewers, token.issue_ms, token.expiry_ms, token.max_ms)
    return dict(zip((name.replace(" ", "_") for name in COLUMNS), values, strict=True))


def _list(admin: Admin, options: argparse.Namespace) -> int:
    tokens = admin.describe_delegation_tokens(*dict.fromkeys(options.owner))
    if options.json:
        for line in as_lines(map(_object, tokens)):
            print(line)
    elif tokens:
        show(COLUMNS, [_cells(token, options) for token in tokens], as_json=False)
    else:
        print("There are no delegation tokens that this user may describe.")
    return 0


def _named(admin: Admin, token_id: str) -> TokenDescription:
    """Return the token with the id `token_id`. Raises `KafkaError`.

    Requests identify tokens by their HMACs, and users know only the id.
    """
    token = next((token for token in admin.describe_delegation_tokens() if token.token_id == token_id), None)
    if token is None:
        raise KafkaError(f"There is no delegation token {token_id} that this user may describe: `ottla token list` lists these.")
    return token


def _renew(admin: Admin, options: argparse.Namespace) -> int:
    from ottla.client.admin.tokens import BROKER_DEFAULT_MS

    token = _named(admin, options.token)
    period = BROKER_DEFAULT_MS if options.by is None else options.by
    return _report(options, token, admin.renew_delegation_token(token.hmac, period), "expires at")


def _expire(admin: Admin, options: argparse.Namespace) -> int:
    from ottla.client.admin.tokens import AT_ONCE_MS

    token = _named(admin, options.token)
    effect = f"This ends delegation token {token.token_id} of {token.owner}, and its users can no longer log in."
    unconfirmed = confirm.refused(options, effect, token.token_id)
    if unconfirmed is not None:
        return unconfirmed
    expiry_ms = admin.expire_delegation_token(token.hmac, AT_ONCE_MS if options.period is None else options.period)
    return _report(options, token, expiry_ms, "expired at" if options.period is None else "expires at")


def _report(options: argparse.Namespace, token: TokenDescription, expiry_ms: int, verb: str) -> int:
    if options.json:
        show(("id", "expires"), [(token.token_id, expiry_ms)], as_json=True)
    else:
        print(f"Token {token.token_id} {verb} {format_time(expiry_ms, utc=options.utc)}.")
    return 0
