"""Which handler serves which API, and in which versions: the handler modules' own tables, joined."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from ottla.broker.releases import Release
from ottla.broker.serving.request import Handler, Handlers

MODULES = (
    "api_versions",
    "config_resources",
    "configs",
    "controlled_shutdown",
    "delete_records",
    "describe_cluster",
    "describe_producers",
    "describe_topic_partitions",
    "elections",
    "fetch",
    "groups",
    "leader_epochs",
    "list_offsets",
    "log_dirs",
    "metadata",
    "offsets",
    "produce",
    "producer_ids",
    "sasl",
    "topics",
)

Routes = dict[tuple[int, int], Handler]


@cache
def handlers() -> Handlers:
    """API key -> (versions served, handler), for everything this broker serves."""
    joined: Handlers = {}
    for name in MODULES:
        table: Handlers = import_module(f"ottla.broker.handlers.{name}").HANDLERS
        twice = joined.keys() & table.keys()
        assert not twice, f"two handler modules serve the API keys {sorted(twice)}"
        joined |= table
    return joined


@cache
def routes() -> Routes:
    """(API key, version) -> handler: one look-up on the path of every request."""
    return {(key, version): handler for key, (versions, handler) in handlers().items() for version in versions}


def served(release: Release) -> dict[int, range]:
    """API key -> versions that a listener of this release serves: the release's own, as far as there is a handler for them."""
    return {
        key: range(release.versions[key].start, min(release.versions[key].stop, versions.stop))
        for key, (versions, _) in sorted(handlers().items())
        if key in release.versions
    }
