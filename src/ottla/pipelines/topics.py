"""The creation of missing topics at a pipeline's target. Blocking; it uses the client."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.client.admin.topics import NewTopic
from ottla.net.client.admin.admin import Admin
from ottla.pipelines.errors import PipelineError


def make_missing(
    admin: Admin, counts: Mapping[str, int], configs: Mapping[str, Mapping[str, str]] | None = None, *, grow: bool = False
) -> None:
    """Create missing topics. `counts` are their partition counts.

    If a topic has too few partitions, add some with `grow`, and raise `PipelineError` otherwise.
    """
    there = set(admin.list_topics(internal=True))
    known = admin.describe_topics(*sorted(counts.keys() & there)) if counts.keys() & there else {}
    for name, topic in known.items():
        if len(topic.partitions) < counts[name] and grow:
            admin.create_partitions({name: counts[name]})
        elif len(topic.partitions) < counts[name]:
            raise PipelineError(
                f"Topic {name} has {len(topic.partitions)} partitions at the target, and for each record to keep its own "
                f"{counts[name]} are needed: add partitions, or place records by their keys."
            )
    missing = sorted(counts.keys() - there)
    if missing:
        admin.create_topics([NewTopic(name, counts[name], configs=(configs or {}).get(name, {})) for name in missing])
