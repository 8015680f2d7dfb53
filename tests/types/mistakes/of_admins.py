"""Mistakes with admin clients: every marked line is one that type checkers report."""

from __future__ import annotations

import ottla


def mistakes(address: str) -> None:
    ottla.Admin({"bootstrap.servers": address})  # mistake
    ottla.Admin(address, linger_ms=5)  # mistake
    ottla.Admin(address, request_timeout_ms="5")  # mistake
    with ottla.Admin(address) as admin:
        admin.create_topic(["t"])  # mistake
        admin.create_topic("t", "6")  # mistake
        admin.create_topics("t")  # mistake
        admin.create_topics([("t", 6)])  # mistake
        admin.delete_topics(["t"])  # mistake
        admin.describe_configs("t")  # mistake
        admin.alter_configs(ottla.ConfigResource.topic("t"), {"retention.ms": 5})  # mistake
        admin.alter_configs(ottla.ConfigResource.topic("t"), set={"retention.ms": [5]})  # mistake
        admin.list_group_offsets(5)  # mistake
        admin.alter_group_offsets("g", {"t": 5})  # mistake
        admin.delete_records({("t", 0): "5"})  # mistake
        topics: dict[str, int] = admin.list_topics()  # mistake
        print(topics)
        print(admin.describe_topics("t")["t"].partition)  # mistake


async def asynchronous(address: str) -> None:
    async with ottla.AsyncAdmin(address) as admin:
        names: list[str] = admin.list_topics()  # mistake
        print(names)
