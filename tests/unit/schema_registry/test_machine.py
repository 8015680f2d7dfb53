"""The machine of the schema registry: what it decides, stores and refuses."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.schema_registry import records
from ottla.schema_registry.machine import (
    Change,
    DeleteConfig,
    DeleteContext,
    DeleteMode,
    DeleteSubject,
    DeleteVersion,
    Register,
    RegistryMachine,
    SetConfig,
    SetMode,
)
from ottla.schema_registry.records import Foreign, SchemaEntry, decode, encode
from ottla.schema_registry.refusals import RegistryRefusal
from ottla.schema_registry.state import contents
from ottla.schema_registry.values import Reference, SchemaText


class Registry:
    """A machine with the log of its records."""

    def __init__(self) -> None:
        self.machine = RegistryMachine()
        self.log: list[tuple[bytes, bytes | None]] = []

    def do(self, change: Change) -> Any:
        """Decide a change, store and apply it, and return the reply, or the code of the refusal."""
        try:
            outcome = self.machine.decide(change)
        except RegistryRefusal as refusal:
            return refusal.code
        for entry in outcome.entries:
            self.log.append(encode(entry))
            self.machine.apply(decode(*self.log[-1]))
        return outcome.reply

    def rebuilt(self, log: Iterable[tuple[bytes, bytes | None]]) -> RegistryMachine:
        """Return a machine that has read a log."""
        machine = RegistryMachine()
        for key, value in log:
            machine.apply(decode(key, value))
        return machine


def record(*names: str, optional: bool = True) -> str:
    default = {"default": 0} if optional else {}
    return json.dumps({"type": "record", "name": "R", "fields": [{"name": each, "type": "int", **default} for each in names]})


def schema(text: str, *references: Reference) -> SchemaText:
    return SchemaText("AVRO", text, references)


SUBJECTS = st.sampled_from(["a", "b", ":.c:a", ":.c:b"])
SETTINGS = st.one_of(SUBJECTS, st.sampled_from(["", ":.c:", ":.__GLOBAL:"]))
REFERRING = schema('["null", "R"]', Reference("R", "a", 1))
TEXTS = st.one_of(
    st.sampled_from([schema(each) for each in ('"int"', '"string"', record("x"), record("x", "y"), record("y"))]),
    st.just(REFERRING),
)
CHANGES: st.SearchStrategy[Change] = st.one_of(
    st.builds(Register, SUBJECTS, TEXTS),
    st.builds(Register, SUBJECTS, TEXTS),
    st.builds(Register, SUBJECTS, TEXTS, schema_id=st.integers(1, 4), version=st.integers(0, 3)),
    st.builds(DeleteVersion, SUBJECTS, st.sampled_from([-1, 1, 2]), st.booleans()),
    st.builds(DeleteSubject, SUBJECTS, st.booleans()),
    st.builds(SetConfig, SETTINGS, st.sampled_from([{"compatibilityLevel": each} for each in ("NONE", "FULL", None)])),
    st.builds(DeleteConfig, SETTINGS),
    st.builds(SetMode, SETTINGS, st.sampled_from(["READWRITE", "READONLY", "IMPORT"]), st.booleans()),
    st.builds(DeleteMode, SETTINGS, st.booleans()),
    st.builds(DeleteContext, st.just(":.c:")),
)


@settings(max_examples=120, deadline=None)
@given(st.lists(CHANGES, max_size=25))
def test_the_log_and_its_compacted_form_rebuild_the_state(changes: list[Change]) -> None:
    registry = Registry()
    for change in changes:
        registry.do(change)
        _check(registry.machine)
    live = list(contents(registry.machine.state))
    assert list(contents(registry.rebuilt(registry.log).state)) == live
    read_once_more = registry.rebuilt([*registry.log, *registry.log])  # nothing depends on what was before the first record
    assert read_once_more.state.subjects == registry.machine.state.subjects


def _check(machine: RegistryMachine) -> None:
    """Check invariants: an id means one schema of its context, and referenced versions exist."""
    for context in machine.state.contexts.values():
        for schema_id, keys in context.keys_by_id.items():
            assert len({machine.state.subjects[name][version].schema.fingerprint for name, version in keys}) == 1
            assert schema_id <= context.max_id
    for versions in machine.state.subjects.values():
        assert list(versions) == sorted(versions)
        for stored in versions.values():
            for each in stored.schema.references:
                prefix = ":.c:" if stored.subject.startswith(":.c:") else ""
                assert machine.state.version(prefix + each.subject, each.version, deleted=True) is not None


def test_equal_schemas_share_an_id() -> None:
    registry = Registry()
    first = registry.do(Register("a", schema('{"type": "int"}')))
    assert registry.do(Register("b", schema('"int"')))["id"] == first["id"] == 1
    assert registry.do(Register("b", schema('  "int"')))["version"] == 1
    assert registry.do(Register(":.c:b", schema('"string"')))["id"] == 1
    assert registry.do(Register("b", SchemaText("AVRO", '"int"', metadata={"properties": {"x": "1"}})))["id"] == 2


def test_ids_are_not_reused_while_the_registry_lives() -> None:
    registry = Registry()
    registry.do(Register("a", schema('"int"')))
    registry.do(DeleteSubject("a"))
    registry.do(DeleteSubject("a", permanent=True))
    assert registry.do(Register("a", schema('"string"')))["id"] == 2


def test_a_schema_that_is_registered_again_replaces_its_deleted_version() -> None:
    registry = Registry()
    registry.do(Register("a", schema('"int"')))
    registry.do(DeleteVersion("a", 1))
    assert registry.do(Register("a", schema('"int"')))["version"] == 2
    assert [each.version for each in registry.machine.state.versions("a", deleted=True)] == [2]


def test_a_referenced_schema_cannot_be_deleted() -> None:
    registry = Registry()
    registry.do(Register("a", schema(record("x"))))
    assert registry.do(Register("b", REFERRING))["id"] == 2
    assert registry.do(DeleteVersion("a", 1)) == 42206
    assert registry.do(DeleteSubject("a")) == 42206
    registry.do(DeleteSubject("b"))
    assert registry.do(DeleteVersion("a", 1)) == 1
    assert registry.do(DeleteVersion("a", 1, permanent=True)) == 42206
    registry.do(DeleteSubject("b", permanent=True))
    assert registry.do(DeleteVersion("a", 1, permanent=True)) == 1


def test_a_reference_is_to_an_existing_schema() -> None:
    assert Registry().do(Register("b", REFERRING)) == 42201


def test_references_in_a_circle_are_refused() -> None:
    """They cannot be registered, but another program can write them into the topic."""
    registry = Registry()
    for name, other in ("a", "b"), ("b", "a"):
        value = {"subject": name, "version": 1, "id": 1, "schema": '"int"'}
        value["references"] = [{"name": "x", "subject": other, "version": 1}]
        registry.machine.apply(SchemaEntry(records.SCHEMA, name, 1, value))
    assert registry.do(Register("d", schema('"int"', Reference("x", "a", 1)))) == 42201
    assert registry.do(DeleteVersion("a", 1)) == 42206


def stored_by_others(registry: Registry, schema_id: int, version: int, schema_type: str, text: str) -> None:
    value = {"subject": "a", "version": version, "id": schema_id, "schemaType": schema_type, "schema": text}
    registry.machine.apply(SchemaEntry(records.SCHEMA, "a", version, value))


def test_a_stored_schema_that_cannot_be_compared_refuses_the_next() -> None:
    registry = Registry()
    stored_by_others(registry, 1, 1, "JSON", '{"$ref":"#"}')
    assert registry.do(Register("a", SchemaText("JSON", '{"type":"object"}'))) == 42201
    chain = {str(each): {"properties": {"x": {"$ref": f"#/definitions/{each + 1}"}}} for each in range(1000)}
    text = json.dumps({"$ref": "#/definitions/0", "definitions": {**chain, "1000": {"type": "string"}}})
    stored_by_others(registry, 2, 2, "JSON", text)
    assert registry.do(Register("a", SchemaText("JSON", text.replace("string", "number")))) == 42201


def test_no_id_or_version_is_given_that_no_registry_would_read() -> None:
    registry = Registry()
    stored_by_others(registry, records.MOST_ID, records.MOST_ID, "AVRO", '"int"')
    assert registry.do(Register("b", schema('"string"'))) == 422
    assert registry.do(Register("b", schema('"int"')))["id"] == records.MOST_ID
    assert registry.do(Register("a", schema('"int"')))["version"] == records.MOST_ID
    registry.do(SetConfig("a", {"compatibilityLevel": "NONE"}))
    assert registry.do(Register("a", schema('"long"'))) == 422


def test_levels_compare_with_one_version_or_with_all() -> None:
    registry = Registry()
    assert registry.do(Register("a", schema(record("x", optional=False))))["version"] == 1
    assert registry.do(Register("a", schema(record())))["version"] == 2
    assert registry.do(Register("a", schema(record("x", "y"))))["version"] == 3
    registry.do(SetConfig("a", {"compatibilityLevel": "FORWARD_TRANSITIVE"}))
    assert registry.do(Register("a", schema(record("y")))) == 409  # version 1 needs x
    registry.do(SetConfig("a", {"compatibilityLevel": "FORWARD"}))
    assert registry.do(Register("a", schema(record("y"))))["version"] == 4
    registry.do(SetConfig("a", {"compatibilityLevel": "NONE"}))
    assert registry.do(Register("a", schema('"int"')))["version"] == 5


def test_a_compatibility_group_separates_versions() -> None:
    registry = Registry()
    registry.do(SetConfig("a", {"compatibilityGroup": "major"}))
    for number, text in enumerate(('"int"', '"string"'), 1):
        made = SchemaText("AVRO", text, metadata={"properties": {"major": str(number)}})
        assert registry.do(Register("a", made))["version"] == number
    assert registry.do(Register("a", SchemaText("AVRO", '"int"', metadata={"properties": {"major": "2"}}))) == 409


FOREIGN = [
    (None, b"x"),
    (b"", None),
    (b"\xff", b"{}"),
    (b"[]", b"{}"),
    (b"{}", b"{}"),
    (b'{"keytype":"OTHER"}', b"{}"),
    (b'{"keytype":"SCHEMA","subject":"a","magic":1}', b"{}"),
    (b'{"keytype":"SCHEMA","subject":"a","version":1,"magic":9}', b"{}"),
    (b'{"keytype":"SCHEMA","subject":"a","version":1,"magic":1}', b"text"),
    (b'{"keytype":"SCHEMA","subject":"a","version":1,"magic":1}', b"{}"),
    (b'{"keytype":"SCHEMA","subject":"a","version":1,"magic":1}', b'{"schema":"x","id":"1"}'),
    (b'{"keytype":"SCHEMA","subject":"a","version":1,"magic":1}', b'{"schema":"x","id":1,"references":[7]}'),
    (b'{"keytype":"SCHEMA","version":1,"magic":1}', b'{"schema":"x","id":1}'),
    (b'{"keytype":"MODE"}', b'{"mode":"ELSE"}'),
    (b'{"keytype":"CONFIG"}', b'{"compatibilityLevel":"SIDEWAYS"}'),
    (b'{"keytype":"CONFIG"}', b'{"compatibilityLevel":[]}'),
    (b'{"keytype":"CONFIG","subject":"\\udfff"}', b"{}"),
    (b'{"keytype":"CONFIG"}', b'{"alias":"\\ud800"}'),
    (b'{"keytype":"DELETE_SUBJECT","subject":"a"}', b"{}"),
    (b"[" * 100_000, b""),
]


@pytest.mark.parametrize(("key", "value"), FOREIGN)
def test_foreign_records_are_noticed(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(Foreign):
        decode(key, value)


def test_records_of_older_registries_are_read() -> None:
    machine = RegistryMachine()
    rows: list[tuple[bytes, bytes | None]] = [
        (b'{"keytype":"NOOP","magic":0}', None),
        (b'{"keytype":"CONFIG","subject":null,"magic":0}', b'{"compatibilityLevel":"FULL"}'),
        (
            b'{"keytype":"SCHEMA","subject":"a","version":1,"magic":1}',
            b'{"subject":"a","version":1,"id":7,"md5":"x","schema":"\\"int\\"","deleted":false,"ts":5}',
        ),
        (b'{"keytype":"SCHEMA","subject":"a","version":2,"magic":0}', b'{"subject":"a","version":2,"id":8,"schema":"x"}'),
        (b'{"keytype":"DELETE_SUBJECT","subject":"a","magic":0}', b'{"subject":"a","version":1}'),
    ]
    for key, value in rows:
        machine.apply(decode(key, value))
    assert machine.state.config_of("a")["compatibilityLevel"] == "FULL"
    assert [each.schema_id for each in machine.state.versions("a")] == [8]
    assert [each.deleted for each in machine.state.versions("a", deleted=True)] == [True, False]
