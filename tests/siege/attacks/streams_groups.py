"""Streams groups: topologies that are dear to validate."""

from __future__ import annotations

from typing import Any

from ottla.wire.api.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from tests.siege.attack import attack
from tests.siege.attacks.groups import find_coordinator
from tests.siege.site import Site, framed, press


@attack("4 connections join new streams groups with topologies of 200 subtopologies in a circle", spoils=True)
def topologies_in_a_circle(site: Site) -> None:
    find_coordinator(site)
    of = StreamsGroupHeartbeatRequest

    def frame(number: int) -> bytes:
        group = site.named(f"streams-{number}")
        names = [f"{group}-{place}-repartition" for place in range(200)]
        subtopologies = [
            of.Subtopology(
                subtopology_id=str(place),
                source_topics=[],
                repartition_sink_topics=[names[(place + 1) % 200]],
                repartition_source_topics=[of.TopicInfo(name=names[place])],
            )
            for place in range(200)
        ]
        topology = of.Topology(epoch=0, subtopologies=subtopologies)
        member = {"group_id": group, "member_id": "m", "process_id": "p", "rebalance_timeout_ms": 30_000}
        tasks: dict[str, list[Any]] = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": [], "client_tags": []}
        return framed(of(**member, **tasks, topology=topology, member_epoch=0), 0)  # type: ignore[arg-type]  # fields by their names

    press(site, frame, lines=4, most=2000)
