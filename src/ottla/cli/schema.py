"""`ottla schema`: the schemas of a registry, Ottla's or any other with the HTTP API of Confluent's."""

from __future__ import annotations

import argparse
import json
import os
import sys
import urllib.parse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.cli.command import arguments, confirm
from ottla.cli.command.exits import COULD_NOT, fail
from ottla.cli.command.output import as_lines, print_lines, show
from ottla.cli.command.parser import Example
from ottla.errors import SettingError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ottla.cli.command.parser import Parser
    from ottla.schemas.registry_client import RegistryClient

URL_VARIABLE, URL = "OTTLA_SCHEMA_REGISTRY", "http://localhost:8081"
AVRO, JSON, PROTOBUF = "AVRO", "JSON", "PROTOBUF"
TYPES = {".avsc": AVRO, ".json": JSON, ".proto": PROTOBUF}
MOST_BYTES = 16 << 20
LIST = "List the newest schema of each subject, or of those whose names begin with PREFIX."
GET = "Print a schema of a subject, the newest by default, or the schema with an id."
REGISTER = """Register a schema as the next version of a subject, unless the subject has it. The suffix of the file's name gives its
format: .avsc is Avro, .json JSON Schema, .proto Protobuf; - is standard input, with --type."""
CHECK = """Check whether a schema could be registered: whether it is valid, and compatible with the subject's versions at the level
of the subject. Exit code 1: it could not."""
DELETE = """Delete a version of a subject, or all. Deleted ones can still be read by their ids, until --permanent removes them, too.
The subject's name is typed to confirm it, or --yes is given."""


def build(parser: Parser) -> None:
    own = parser.group()
    listing = own.add("list", "list subjects", _list, description=LIST)
    listing.examples = (
        Example("schema list", "All subjects."),
        Example("schema list --schema-registry http://localhost:8081", "Those of this registry."),
        Example("schema list flights --deleted --json", "Those whose names begin with flights, also deleted ones, for programs."),
    )
    listing.add_argument("prefix", metavar="PREFIX", nargs="?", default="", help="the beginning of names")
    listing.add_argument("--deleted", action="store_true", help="also deleted schemas")
    getting = own.add("get", "print a schema", _get, description=GET)
    getting.examples = (
        Example("schema get flights-value", "Its newest schema."),
        Example("schema get flights-value 1 --json", "Version 1, with its id and references, for programs."),
        Example("schema get --id 1", "The schema that values with this id were written with."),
    )
    getting.add_argument("subject", metavar="SUBJECT", nargs="?", help="a subject, such as flights-value")
    getting.add_argument("version", metavar="VERSION", nargs="?", type=arguments.whole(1), help="a version (default: the newest)")
    getting.add_argument("--id", metavar="N", type=arguments.whole(0), help="the id of a schema")
    registering = own.add("register", "register a schema", _register, description=REGISTER)
    registering.examples = (
        Example("schema register flights-value flight.avsc", "A schema of Avro."),
        Example(
            "schema register flights-value flight.proto --reference plane.proto=plane:1",
            "One of Protobuf that imports another one.",
        ),
        Example("schema register flights-value - --type JSON --json", "From standard input; prints id and version for programs."),
    )
    registering.add_argument("--normalize", action="store_true", help="register the normal form, which different spellings share")
    checking = own.add("check", "check whether a schema could be registered", _check, description=CHECK)
    checking.examples = (
        Example("schema check flights-value flight.avsc", "Against the versions that its level names."),
        Example("schema check flights-value flight.avsc --version 1 --json", "Against version 1, for programs."),
        Example("schema check flights-value - --type AVRO", "A schema from standard input."),
    )
    checking.add_argument("--version", metavar="N", type=arguments.whole(1), help="compare with this version alone")
    for each in registering, checking:
        _add_schema(each)
    deleting = own.add("delete", "delete schemas", _delete, description=DELETE)
    deleting.examples = (
        Example("schema delete flights-value 1", "Ask for the name, then delete version 1."),
        Example("schema delete flights-value --permanent --yes", "Delete all versions and remove them, without a question."),
        Example("schema delete flights-value 1 --yes --json", "Delete version 1, for programs."),
    )
    deleting.add_argument("subject", metavar="SUBJECT", help="a subject")
    deleting.add_argument("version", metavar="VERSION", nargs="?", type=arguments.whole(1), help="a version (default: all)")
    deleting.add_argument("--permanent", action="store_true", help="also remove what is deleted, so that its ids have no schema")
    confirm.add_option(deleting)
    for each in listing, getting, registering, checking, deleting:
        _add_registry(each)


def _add_schema(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("subject", metavar="SUBJECT", help="a subject, such as flights-value")
    parser.add_argument("file", metavar="FILE", help="a file with a schema, or -")
    parser.add_argument("--type", choices=(AVRO, JSON, PROTOBUF), help="the format, if the file's name does not say it")
    help_text = "a schema to which this one refers by NAME; can be repeated"
    parser.add_argument("--reference", metavar="NAME=SUBJECT:VERSION", action="append", default=[], help=help_text)


def _add_registry(parser: argparse.ArgumentParser) -> None:
    help_text = f"the registry, perhaps with USER:PASSWORD@ before its host (default: ${URL_VARIABLE}, then {URL})"
    parser.add_argument("--schema-registry", metavar="URL", type=arguments.given, help=help_text)
    parser.add_argument("--json", action="store_true", help="print JSON")


class RegistryCaller:
    """A registry, with the requests of this command. Methods raise `KafkaError`."""

    def __init__(self, options: argparse.Namespace) -> None:
        from ottla.schemas.places import schema_place
        from ottla.schemas.registry_client import RegistryClient

        url = options.schema_registry or os.environ.get(URL_VARIABLE) or URL
        place = schema_place(url, "--schema-registry")
        if not isinstance(place, RegistryClient):
            raise SettingError(f"{url} is a directory, and `ottla schema` needs a registry: give its URL with --schema-registry.")
        self._client: RegistryClient = place

    def request(self, method: str, *parts: object, body: Mapping[str, Any] | None = None, **query: object) -> Any:
        """Send a request, and return the JSON of the answer."""
        path = "/" + "/".join(urllib.parse.quote(str(part), safe="") for part in parts)
        text = urllib.parse.urlencode({name: each for name, each in query.items() if each})
        return self._client.call(method, f"{path}?{text}" if text else path, body)


def _list(options: argparse.Namespace) -> int:
    deleted = "true" if options.deleted else ""
    found = RegistryCaller(options).request("GET", "schemas", subjectPrefix=options.prefix, latestOnly="true", deleted=deleted)
    columns = ("subject", "version", "id", "type", "references")
    rows = [
        (each["subject"], each["version"], each["id"], each.get("schemaType", AVRO), _names(each.get("references")))
        for each in found
    ]
    show(columns, rows, as_json=options.json)
    return 0


def _names(references: list[Mapping[str, Any]] | None) -> list[str]:
    return [f"{each['subject']}:{each['version']}" for each in references or ()]


def _get(options: argparse.Namespace) -> int:
    registry = RegistryCaller(options)
    if (options.id is None) == (options.subject is None):
        raise SettingError("Name a subject, or an id with --id, and not both.")
    if options.id is not None:
        found = registry.request("GET", "schemas", "ids", options.id)
    else:
        found = registry.request("GET", "subjects", options.subject, "versions", options.version or "latest")
    print_lines(as_lines([found]) if options.json else [_pretty(found)])
    return 0


def _pretty(found: Mapping[str, Any]) -> str:
    """Return the text of a schema for people."""
    text = str(found["schema"])
    if found.get("schemaType", AVRO) == PROTOBUF:
        return text.rstrip("\n")
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except ValueError:
        return text


def _register(options: argparse.Namespace) -> int:
    body, normalize = _body(options), "true" if options.normalize else ""
    registry = RegistryCaller(options)
    found = registry.request("POST", "subjects", options.subject, "versions", body=body, normalize=normalize)
    looked_up = registry.request("POST", "subjects", options.subject, body=body, normalize=normalize)
    version = found.get("version", looked_up["version"])
    if options.json:
        print_lines(as_lines([{"subject": options.subject, "version": version, "id": found["id"]}]))
    else:
        print_lines([f"{options.subject} version {version} has id {found['id']}"])
    return 0


def _check(options: argparse.Namespace) -> int:
    parts = ("compatibility", "subjects", options.subject, "versions", *(() if options.version is None else (options.version,)))
    found = RegistryCaller(options).request("POST", *parts, body=_body(options), verbose="true")
    fits, reasons = bool(found["is_compatible"]), list(map(str, found.get("messages") or ()))
    if options.json:
        print_lines(as_lines([{"subject": options.subject, "is_compatible": fits, "messages": reasons}]))
        return 0 if fits else COULD_NOT
    if fits:
        print_lines([f"{options.file} is compatible with {options.subject}"])
        return 0
    return fail(f"{options.file} is not compatible with {options.subject}: {'; '.join(reasons[:5])}")


def _delete(options: argparse.Namespace) -> int:
    registry = RegistryCaller(options)
    parts = ("subjects", options.subject, *(() if options.version is None else ("versions", options.version)))
    what = options.subject if options.version is None else f"version {options.version} of {options.subject}"
    effect = f"This deletes {what}{', and removes it for good' if options.permanent else ''}."
    if (code := confirm.refused(options, effect, options.subject)) is not None:
        return code
    if options.permanent:
        _delete_first(lambda: registry.request("DELETE", *parts))
    found = registry.request("DELETE", *parts, permanent="true" if options.permanent else "")
    versions = found if isinstance(found, list) else [found]
    if options.json:
        print_lines(as_lines([{"subject": options.subject, "versions": versions, "permanent": options.permanent}]))
    else:
        word = "removed" if options.permanent else "deleted"
        print_lines([f"{word} version{'s' if len(versions) > 1 else ''} {', '.join(map(str, versions))} of {options.subject}"])
    return 0


def _delete_first(delete: Callable[[], object]) -> None:
    """Delete what is to be removed, unless it is deleted already."""
    from ottla.schemas.registry_client import RefusedByRegistry

    try:
        delete()
    except RefusedByRegistry as error:
        if error.code not in (40404, 40406):
            raise


def _body(options: argparse.Namespace) -> dict[str, Any]:
    """Return the schema of the command line as a registry takes it. Raises `SettingError`."""
    kind = options.type or TYPES.get(Path(options.file).suffix)
    if kind is None:
        raise SettingError(f"The name of {options.file} does not say its format: add --type {AVRO}, {JSON} or {PROTOBUF}.")
    body: dict[str, Any] = {"schema": _read_text(options.file), "schemaType": kind}
    if options.reference:
        body["references"] = [_reference(text) for text in options.reference]
    return body


def _reference(text: str) -> dict[str, Any]:
    name, _, place = text.partition("=")
    subject, _, version = place.rpartition(":")
    if not name or not subject or not (version.isascii() and version.isdecimal()):
        raise SettingError(f"--reference {text!r} is no reference: write NAME=SUBJECT:VERSION.")
    return {"name": name, "subject": subject, "version": int(version)}


def _read_text(file: str) -> str:
    try:
        if file == "-":
            return sys.stdin.read(MOST_BYTES)
        with open(file, encoding="utf-8") as opened:
            return opened.read(MOST_BYTES)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no UTF-8"
        raise SettingError(f"Cannot read {file}: {reason}; name a readable file with a schema.") from None
