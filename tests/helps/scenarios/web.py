"""The examples of commands that serve HTTP."""

from __future__ import annotations

import json
import re
import urllib.request
from typing import Any

from tests.helps.scenario import example
from tests.helps.world import FollowedCommand, HelpWorld

SERVES = re.compile(r"answers at (http://127\.0\.0\.1:\d+)\s")


def page(command: FollowedCommand, path: str) -> str:
    """Return a page of a command that serves HTTP."""
    found = SERVES.search(command.text)
    assert found is not None, command.text
    with urllib.request.urlopen(found[1] + path, timeout=20) as answer:
        text: str = answer.read().decode()
    return text


@example("serve --data-dir data --listen 127.0.0.1:9092 --console 127.0.0.1:8080", only_ottla="it is Ottla's broker")
def a_broker_has_a_console(world: HelpWorld) -> None:
    world.words |= {"127.0.0.1:9092": "127.0.0.1:0", "127.0.0.1:8080": "127.0.0.1:0"}
    with world.following(code=0) as command:
        command.wait_for("The console answers at")
        command.text = command.text.rpartition("The console")[2]
        overview: dict[str, Any] = json.loads(page(command, "/api/overview"))
        assert [each["answers"] for each in overview["brokers"]] == [True]


@example("console -b localhost:9092", only_current="the console's own tests try older releases")
@example("console --listen 127.0.0.1:8081 --read-only", seconds=3, only_current="the console's own tests try older releases")
def a_console_shows_the_cluster(world: HelpWorld) -> None:
    world.topic()
    world.words |= {"127.0.0.1:8081": "127.0.0.1:0"}
    if "--listen" not in world.line:
        world.words[" -b "] = " --listen 127.0.0.1:0 -b "
    with world.following(code=0) as command:
        command.wait_for("answers at")
        topics: dict[str, Any] = json.loads(page(command, "/api/topics"))
        assert [each["name"] for each in topics["topics"]] == ["flights"]
        assert ("Create a topic" in page(command, "/topics")) == ("--read-only" not in world.line)


@example(
    "console -X security.protocol=SASL_PLAINTEXT --schema-registry http://localhost:8081",
    seconds=3,
    only_current="the console's own tests try older releases",
)
def each_visitor_logs_in(world: HelpWorld) -> None:
    world.words[" --schema"] = " --listen 127.0.0.1:0 --schema"
    with world.following(code=0) as command:
        command.wait_for("answers at")
        assert "Password or token" in page(command, "/topics")
