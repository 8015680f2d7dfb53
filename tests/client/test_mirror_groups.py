"""What groups have committed goes along with a mirror, whatever has been deleted at either side."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import ottla
from ottla import NewTopic, TopicPartition
from ottla.pipelines.mirror import Copying, GroupsAlong, MirrorPipeline
from tests.support.peers import Peer


def test_groups_go_along_though_records_behind_their_syncs_are_deleted(
    broker: Peer, unique: Callable[[str], str], tmp_path: Path
) -> None:
    topic, groups = unique("mirrored"), [unique("first"), unique("second")]
    there = TopicPartition(f"p.{topic}", 0)
    pipeline = MirrorPipeline([topic], broker.address, broker.address, "p.", groups, state_directory=tmp_path / "state")
    with ottla.Admin(broker.address) as admin, ottla.Producer(broker.address) as producer:
        admin.create_topics([NewTopic(name, 1) for name in (topic, there.topic)])
        for number in range(10):
            for name in (topic, there.topic):
                producer.send(name, b"%d" % number)
        producer.flush()
        admin.delete_records({there: 3})
        for group, offset in zip(groups, (5, 10), strict=True):
            admin.alter_group_offsets(group, {TopicPartition(topic, 0): offset})
        state = pipeline.state
        state.open()
        state.write("syncs", {topic: {"0": [[0, 0], [10, 10]]}})
        GroupsAlong(pipeline, Copying(pipeline, state, admin, admin), admin, admin).translate()
        assert [admin.list_group_offsets(group)[there].offset for group in groups] == [3, 10]
