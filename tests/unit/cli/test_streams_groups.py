"""Streams groups as `ottla group describe` prints them: tasks by kind and subtopology, and the topics of the topology."""

from __future__ import annotations

import argparse
import json
from typing import Any, cast

import pytest

from ottla.cli.group import descriptions
from ottla.cli.group.lag import GroupLag
from ottla.client.admin.groups import STREAMS, GroupDescription, GroupMember, StreamsTasks, Subtopology
from ottla.client.types import TopicPartition

TASKS = StreamsTasks({"0": [0, 1, 3], "1": [2]}, {"0": [2]}, {})
MEMBER = GroupMember("me", None, "words", "here", b"", [TopicPartition("lines", 0)], 3, None, False, tasks=TASKS)
TOPOLOGY = [Subtopology("0", ["lines"], [], ["words-repartition"], []), Subtopology("1", [], ["words-repartition"], [], ["counts"])]
GROUP = GroupDescription("counting", "Stable", STREAMS, "sticky", [MEMBER], STREAMS, 1, 4, 4, None, TOPOLOGY)


def described(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *, as_json: bool) -> str:
    monkeypatch.setattr(descriptions, "measure", lambda admin, names: [GroupLag(GROUP, [])])
    options = argparse.Namespace(groups=["counting"], members=False, partitions=False, watch=None, json=as_json)
    assert descriptions.describe(cast("Any", None), options) == 0
    return capsys.readouterr().out


def test_tasks_and_topology_are_printed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    _, _, tasks, topology = described(monkeypatch, capsys, as_json=False).split("\n\n")
    assert [line.split() for line in tasks.splitlines()] == [
        ["MEMBER", "TASKS", "SUBTOPOLOGY", "PARTITIONS"],
        ["me", "active", "0", "0-1,3"],
        ["me", "active", "1", "2"],
        ["me", "standby", "0", "2"],
    ]
    assert topology.splitlines()[1].split() == ["0", "lines", "-", "words-repartition", "-"]


def test_programs_get_them_too(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(described(monkeypatch, capsys, as_json=True))
    assert found["topology"][1]["changelog_topics"] == ["counts"]
    assert found["tasks"][2] == {"member": "me", "tasks": "standby", "subtopology": "0", "partitions": "2"}
