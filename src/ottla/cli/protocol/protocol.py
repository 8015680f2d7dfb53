"""`ottla protocol`: every API, version and field of Kafka's protocol, on the terminal, as one HTML page, or as JSON."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from ottla.cli.command.parser import Example

if TYPE_CHECKING:
    from ottla.cli.command.parser import Parser
    from ottla.wire.apis import Api
    from ottla.wire.schema import Message

DESCRIPTION = """Print Kafka's protocol as it is declared here: without API a table of all; with API its purpose, its versions, the
grammar of one version (the newest, unless --version says which) and the fields of all. Names of other messages (RequestHeader,
OffsetCommitValue …) are taken too. With --release 0.7 the same of the few requests that there were before versions."""
EXAMPLES = (
    Example("protocol", "All requests with their versions."),
    Example("protocol Fetch --version 12", "The grammar of one version, and its fields."),
    Example("protocol --errors", "All error codes."),
)


def build(command: Parser) -> None:
    command.description = DESCRIPTION
    command.examples = EXAMPLES
    command.add_argument("api", nargs="?", metavar="API", help="a name or key, such as Fetch or 1")
    command.add_argument("--version", type=int, metavar="N", help="grammar and fields of this version alone")
    command.add_argument("--release", choices=("0.7",), help="the protocol of Kafka 0.7, which has no versions")
    command.add_argument("--errors", action="store_true", help="the table of error codes")
    command.add_argument("--html", metavar="FILE", help="write one self-contained page, - for standard output")
    command.add_argument("--json", action="store_true", help="print one JSON value")
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    from ottla.cli.command.exits import MISUSED, fail
    from ottla.inspection.api_names import NoSuchName

    try:
        text = _text(options)
    except NoSuchName as error:
        return fail(str(error), MISUSED)
    if options.html is None or options.html == "-":
        return _print(text)
    try:
        with open(options.html, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        return fail(f"Cannot write {options.html}: {error.strerror}; name another file with --html.")
    return 0


def _print(text: str) -> int:
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        sys.stderr.close()  # the reader, such as head, has closed the pipe
    return 0


def _text(options: argparse.Namespace) -> str:
    """Return the requested text, in the chosen format."""
    from ottla.inspection.api_names import NoSuchName

    if options.release:
        return _of_07(options)
    if options.api is None:
        if options.version is not None:
            raise NoSuchName("--version needs an API: ottla protocol API --version N.")
        return _overview(options)
    thing, versions = _chosen(options.api, options.version)
    if options.html is not None:
        from ottla.cli.protocol.html import page_of

        return page_of(thing, versions)
    if options.json:
        return _json(_described(thing, versions))
    from ottla.cli.protocol.text import lines_of

    return "\n".join(lines_of(thing, versions)) + "\n"


def _of_07(options: argparse.Namespace) -> str:
    """Return the requested text for Kafka 0.7."""
    from ottla.inspection.api_names import NoSuchName
    from ottla.kafka07.cli import protocol as protocol07

    if options.version is not None or options.html is not None:
        raise NoSuchName("Kafka 0.7 has no versions, and no page of its own: leave out --version and --html.")
    if options.json and options.api is None:
        return _json(protocol07.errors_json() if options.errors else protocol07.overview_json())
    if options.json:
        return _json(protocol07.json_of(options.api))
    if options.api is not None:
        return "\n".join(protocol07.lines_of(options.api)) + "\n"
    return "\n".join(protocol07.error_lines() if options.errors else protocol07.overview_lines()) + "\n"


def _chosen(name: str, version: int | None) -> tuple[Api | type[Message], list[int]]:
    """Return the API or message of a name, and its chosen versions."""
    from ottla.inspection.api_names import check_version, find
    from ottla.wire.apis import Api

    thing = find(name)
    valid, full_name = (thing.versions, thing.name) if isinstance(thing, Api) else (thing.WIRE.valid, thing.__name__)
    check_version(full_name, valid, version)
    return thing, list(valid) if version is None else [version]


def _overview(options: argparse.Namespace) -> str:
    if options.html is not None:
        from ottla.cli.protocol.html import whole_page

        return whole_page()
    from ottla.wire.errors import ERRORS

    if options.json:
        return _json([error._asdict() for error in ERRORS.values()] if options.errors else _every_api())
    from ottla.cli.protocol.text import error_lines, overview_lines

    return "\n".join(error_lines() if options.errors else overview_lines()) + "\n"


def _json(value: object) -> str:
    import json

    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def _summary(api: Api) -> dict[str, object]:
    from ottla.cli.protocol.grammar import about
    from ottla.inspection.api_names import spec

    purpose, history = about(api)
    summary = {"key": api.key, "name": api.name, "versions": spec(api.versions)}
    flexible = [version for version in api.versions if version in api.flexible]
    return summary | {"flexible": f"{flexible[0]}+" if flexible else "none", "about": purpose, "history": history}


def _every_api() -> list[dict[str, object]]:
    from ottla.wire.apis import API

    return [_summary(api) for api in API.values()]


def _described(thing: Api | type[Message], versions: list[int]) -> dict[str, object]:
    from ottla.cli.protocol.grammar import as_json
    from ottla.wire.apis import Api

    if not isinstance(thing, Api):
        return as_json(thing, versions)
    headers = {
        str(version): {"request": thing.request_headers[version], "response": thing.response_headers[version]}
        for version in versions
    }
    parts = {"request": as_json(thing.request, versions), "response": as_json(thing.response, versions)}
    return _summary(thing) | {"headers": headers} | parts
