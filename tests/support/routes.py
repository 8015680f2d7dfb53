"""The routes of all handlers, which a broker imports one by one."""

from __future__ import annotations

from ottla.broker.serving.api_table import apis
from ottla.broker.serving.routes import Route, Served


def all_routes(*, for_brokers: bool = False) -> dict[int, Route]:
    """The route of each API that a lone broker serves, by key; with `for_brokers`, a member of a cluster."""
    served = Served(apis(for_brokers=for_brokers))
    return {key: served.route(key) for key in served.keys}
