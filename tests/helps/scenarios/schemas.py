"""The examples of commands about schemas."""

from __future__ import annotations

import base64
import json
import os
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ottla.schema_registry.server.instance import ListenOptions, SchemaRegistryInstance
from ottla.schema_registry.server.registry import RegistryOptions
from ottla.web.address import WebAddress
from tests.helps.scenario import example
from tests.helps.scenarios.web import SERVES
from tests.helps.world import HelpWorld

REGISTRY = re.compile(r"registry answers at (http://127\.0\.0\.1:\d+)")
OWN = "the registry's own tests try it"
FLIGHT = '{"type": "record", "name": "Flight", "fields": [{"name": "late", "type": "int"}]}'


@contextmanager
def registry(world: HelpWorld, *schemas: str) -> Iterator[str]:
    """Return a context manager with a registry in which flights-value has these schemas. Commands find it."""
    listen = ListenOptions(WebAddress("127.0.0.1", 0))
    with SchemaRegistryInstance({"bootstrap_servers": world.cluster.address}, listen, RegistryOptions()) as running:
        os.environ["OTTLA_SCHEMA_REGISTRY"] = running.server.url  # the world's end restores it
        for text in schemas:
            ask(running.server.url, "/subjects/flights-value/versions", {"schema": text})
        yield running.server.url


def ask(url: str, path: str, body: Any = None, login: str = "") -> Any:
    """Send a request to a registry, and return its answer."""
    headers = {"Content-Type": "application/json"}
    if login:
        headers["Authorization"] = f"Basic {base64.b64encode(login.encode()).decode()}"
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(url + path, data, headers), timeout=20) as answer:
        return json.load(answer)


@example("schema-registry -b localhost:9092", only_current=OWN)
@example("schema-registry --listen 127.0.0.1:8082 --topic _schemas2 --group registry2", seconds=2, only_current=OWN)
@example("schema-registry --users users.txt", seconds=2, only_current=OWN)
def a_registry_answers(world: HelpWorld) -> None:
    Path("users.txt").write_text("ann:secret\n")
    world.words |= {"127.0.0.1:8082": "127.0.0.1:0"}
    if "--listen" not in world.line:
        world.words["schema-registry "] = "schema-registry --listen 127.0.0.1:0 "
    login = "ann:secret" if "--users" in world.line else ""
    with world.following(code=0) as command:
        command.wait_for("answers at")
        found = SERVES.search(command.text)
        assert found is not None
        assert ask(found[1], "/subjects/flights-value/versions", {"schema": '"int"'}, login)["id"] == 1
        assert ("_schemas2" if "_schemas2" in world.line else "_schemas") in world.admin.list_topics()
        if login:
            with pytest.raises(urllib.error.HTTPError, match="401"):
                ask(found[1], "/subjects")


@example("schema list", only_current=OWN)
@example("schema list --schema-registry http://localhost:8081", only_current=OWN)
def subjects_are_listed(world: HelpWorld) -> None:
    with registry(world, '"int"', '"long"') as url:
        world.words["http://localhost:8081"] = url
        assert world.run().out.splitlines()[1].split() == ["flights-value", "2", "2", "AVRO", "-"]


@example("schema list flights --deleted --json", only_current=OWN)
def deleted_schemas_are_listed(world: HelpWorld) -> None:
    with registry(world, '"int"'):
        world.run("schema delete flights-value 1 --yes")
        assert [(each["subject"], each["id"]) for each in world.run().rows] == [("flights-value", 1)]
        assert world.run("schema list --json").rows == []


@example("schema get flights-value", only_current=OWN)
@example("schema get flights-value 1 --json", only_current=OWN)
@example("schema get --id 1", only_current=OWN)
def a_schema_is_printed(world: HelpWorld) -> None:
    with registry(world, FLIGHT):
        found = json.loads(world.run().out)
        if "--json" in world.line:
            assert found["version"] == 1
            found = json.loads(found["schema"])
        assert found == json.loads(FLIGHT)
        assert "Subject 'none' not found" in world.run("schema get none", code=1).err
        assert "Name a subject, or an id" in world.run("schema get", code=2).err


@example("schema register flights-value flight.avsc", only_current=OWN)
@example("schema register flights-value flight.proto --reference plane.proto=plane:1", only_current=OWN)
@example("schema register flights-value - --type JSON --json", only_current=OWN)
def a_schema_is_registered(world: HelpWorld) -> None:
    Path("flight.avsc").write_text(FLIGHT)
    Path("plane.proto").write_text('syntax = "proto3"; message Plane {}')
    Path("flight.proto").write_text('syntax = "proto3"; import "plane.proto"; message Flight { Plane plane = 1; }')
    with registry(world) as url:
        if "--reference" in world.line:
            assert "add a reference" in world.run("schema register flights-value flight.proto", code=1).err
            world.run("schema register plane plane.proto")
        outcome = world.run(stdin=b'{"type": "object"}')
        if "--json" in world.line:
            assert outcome.rows == [{"subject": "flights-value", "version": 1, "id": 1}]
        else:
            assert outcome.out.startswith("flights-value version 1 has id")
        assert ask(url, "/subjects/flights-value/versions") == [1]
        assert "--type" in world.run("schema register flights-value unknown", code=2).err
        assert "Cannot read" in world.run("schema register flights-value missing.avsc", code=2).err


@example("schema check flights-value flight.avsc", only_current=OWN)
@example("schema check flights-value flight.avsc --version 1 --json", only_current=OWN)
@example("schema check flights-value - --type AVRO", only_current=OWN)
def compatibility_is_checked(world: HelpWorld) -> None:
    Path("flight.avsc").write_text(FLIGHT)
    with registry(world, FLIGHT):
        outcome = world.run(stdin=FLIGHT.encode())
        assert (outcome.rows[0]["is_compatible"] is True) if "--json" in world.line else "is compatible" in outcome.out
        Path("flight.avsc").write_text('"int"')
        outcome = world.run(stdin=b'"int"', code=1)
        assert "TYPE_MISMATCH" in outcome.out + outcome.err


@example("schema delete flights-value 1", only_current=OWN)
@example("schema delete flights-value --permanent --yes", only_current=OWN)
@example("schema delete flights-value 1 --yes --json", only_current=OWN)
def schemas_are_deleted(world: HelpWorld) -> None:
    with registry(world, '"int"', '"long"') as url:
        if "--json" in world.line:
            assert world.run().rows == [{"subject": "flights-value", "versions": [1], "permanent": False}]
        elif "--yes" in world.line:
            world.run()
            assert ask(url, "/subjects?deleted=true") == []
        else:
            assert "Not confirmed" in world.run(typed="other", code=1).err
            world.run(typed="flights-value")
            assert ask(url, "/subjects/flights-value/versions") == [2]


@example("serve --data-dir data --listen 127.0.0.1:9092 --schema-registry 127.0.0.1:8081", only_ottla="it is Ottla's broker")
def a_broker_has_a_registry(world: HelpWorld) -> None:
    world.words |= {"127.0.0.1:9092": "127.0.0.1:0", "127.0.0.1:8081": "127.0.0.1:0"}
    with world.following(code=0) as command:
        command.wait_for("The schema registry answers at")
        found = REGISTRY.search(command.text)
        assert found is not None
        assert ask(found[1], "/subjects/flights-value/versions", {"schema": '"int"'})["id"] == 1
