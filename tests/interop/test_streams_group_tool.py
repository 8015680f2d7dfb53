"""kafka-streams-groups and kafka-groups: streams groups listed, described, their offsets reset and deleted, and they themselves."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

import ottla
from tests.support.clients.confluent import Confluent
from tests.support.java_programs import write
from tests.support.peers import GROUPS_STAY, Peer, start_peer
from tests.support.streams_programs import PATIENCE_S, STREAMS_SETTINGS, application, wait_for_tasks
from tests.support.toolbox import Toolbox
from tests.support.waiting import eventually

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(400)]
GROUP, LINES = "count-lines", 10
INTERNAL = {f"{GROUP}-counts-repartition", f"{GROUP}-counts-changelog"}


@pytest.fixture
def peer(peer_name: str, tmp_path: Path) -> Iterator[Peer]:
    with start_peer(peer_name, tmp_path, {**STREAMS_SETTINGS, **GROUPS_STAY}) as peer:
        yield peer


@pytest.mark.full(seconds=25)
def test_a_streams_group_from_its_first_member_to_its_deletion(peer: Peer, tmp_path: Path, toolbox: Toolbox) -> None:
    client, at = Confluent(peer.address), toolbox.at(peer.address)
    tool = partial(at, "streams-groups")
    for topic in ("lines", "counts"):
        client.create_topic(topic, 2)
        eventually(lambda: client.partitions(topic) == 2, what=f"{topic} is known")  # noqa: B023  # it is called in this round
    write(peer.address, "lines", [f"a word{number}" for number in range(LINES)])
    assert GROUP not in tool("--list")
    with application(peer.address, tmp_path) as app:
        instance = app.start("i0")
        wait_for_tasks([instance], 4)
        assert re.search(rf"^{GROUP}\s+Stable$", tool("--list", "--state"), re.MULTILINE)
        assert re.search(rf"^{GROUP}\s+Streams\s+streams", at("groups", "--list"), re.MULTILINE)
        described = tool("--describe", "--group", GROUP, "--members", "--verbose")
        assert "ACTIVE: 0:[0,1]; 1:[0,1];" in described
        assert "TARGET-ACTIVE: 0:[0,1]; 1:[0,1];" in described
        state = tool("--describe", "--group", GROUP, "--state", "--verbose")
        assert re.search(rf"^{GROUP}\s+\S+ \(\d+\)\s+Stable\s+\d+\s+\d+\s+1", state, re.MULTILINE)
        eventually(lambda: progress(client) == LINES, timeout_s=PATIENCE_S, what="all lines are committed")
        offsets = tool("--describe", "--group", GROUP, "--offsets", "--verbose")
        assert sorted(re.findall(rf"^{GROUP}\s+lines\s+(\d)\s+5\s", offsets, re.MULTILINE)) == ["0", "1"]
        refused = tool("--delete", "--group", GROUP, fails=False)
        assert "non empty" in refused.lower() or "not empty" in refused.lower() or "NonEmpty" in refused
        refused = tool("--reset-offsets", "--group", GROUP, "--all-input-topics", "--to-earliest", "--execute")
        assert "can only be reset if the group" in refused or "inactive" in refused
        instance.close()
    eventually(lambda: "Empty" in tool("--describe", "--group", GROUP, "--state"), timeout_s=PATIENCE_S, what="the member has left")
    to_start = ("--reset-offsets", "--group", GROUP, "--all-input-topics", "--to-earliest")
    planned = tool(*to_start, "--dry-run")
    assert len(re.findall(rf"^{GROUP}\s+lines\s+\d+\s+0\s*$", planned, re.MULTILINE)) == 2
    assert progress(client) == LINES, "it was a dry run"
    tool("--reset-offsets", "--group", GROUP, "--input-topic", "lines:0", "--shift-by", "-1", "--execute")
    assert progress(client) == LINES - 1
    tool(*to_start, "--execute", "--delete-all-internal-topics")
    assert progress(client) == 0
    eventually(lambda: not INTERNAL & names(client), timeout_s=PATIENCE_S, what="internal topics are deleted")
    with application(peer.address, tmp_path / "again") as app:
        instance = app.start("i1")
        wait_for_tasks([instance], 4)
        eventually(lambda: progress(client) == LINES, timeout_s=PATIENCE_S, what="all is counted again")
        assert names(client) >= INTERNAL
        instance.close()
    eventually(lambda: "Empty" in tool("--describe", "--group", GROUP, "--state"), timeout_s=PATIENCE_S, what="the member has left")
    tool("--delete-offsets", "--group", GROUP, "--input-topic", "lines")
    assert not client.committed("lines", GROUP, 2)
    assert "was successful" in tool("--delete", "--group", GROUP, "--delete-all-internal-topics")
    assert GROUP not in tool("--list")
    eventually(lambda: not INTERNAL & names(client), timeout_s=PATIENCE_S, what="internal topics are deleted with their group")


def progress(client: Confluent) -> int:
    """The lines that are committed."""
    return sum(offset for offset in client.committed("lines", GROUP, 2).values() if offset > 0)


def names(client: Confluent) -> set[str]:
    with ottla.Admin(client.address) as admin:
        return set(admin.list_topics())
