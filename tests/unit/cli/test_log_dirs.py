"""The rows of `ottla logdirs` for directories that a test cannot easily bring about: offline, cordoned, with future replicas."""

from __future__ import annotations

from ottla.cli.admin.log_dirs import directory_rows
from ottla.client.admin.replicas import LogDir, ReplicaOnDisk
from ottla.client.types import TopicPartition
from ottla.wire.errors import KAFKA_STORAGE_ERROR

FOUND = {
    1: [
        LogDir("/b", KAFKA_STORAGE_ERROR, -1, -1, {}),
        LogDir(
            "/a",
            0,
            10_000,
            2_000,
            {TopicPartition("t", 0): ReplicaOnDisk(1500, 0, False), TopicPartition("t", 1): ReplicaOnDisk(500, 7, True)},
        ),
    ],
    2: [LogDir("/a", 0, -1, -1, {}, is_cordoned=True)],
}


def test_a_row_says_why_a_directory_is_offline_and_what_an_older_broker_leaves_out() -> None:
    assert list(directory_rows(FOUND, as_json=True)) == [
        (1, "/a", "online", None, 1, 1, 2000, 10_000, 2000),
        (1, "/b", "offline", "KAFKA_STORAGE_ERROR", 0, 0, 0, None, None),
        (2, "/a", "cordoned", None, 0, 0, 0, None, None),
    ]
    assert next(directory_rows(FOUND, as_json=False))[-3:] == ("2.0 KB", "10.0 KB", "2.0 KB")
