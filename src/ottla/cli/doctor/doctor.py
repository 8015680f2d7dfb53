"""`ottla doctor`: its arguments and the order of its checks, from the address to this machine's limits. It changes nothing."""

from __future__ import annotations

import argparse
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from ottla.cli.command import connection
from ottla.cli.command.connection import add_options
from ottla.cli.command.parser import Example
from ottla.cli.doctor import disk

if TYPE_CHECKING:
    from ottla.cli.command.parser import Parser
    from ottla.cli.doctor.findings import HealthFinding

DESCRIPTION = """Check the way to a cluster and the cluster's health: addresses, connections, TLS and certificates, login, API
versions, every advertised broker, the controller, this user's rights, partitions, clocks, disks, and the limits and libraries of
this machine. Each check is a line, with what to do if it is not ok. Nothing is changed. Exit code 1: a check has failed. The
command `disk` measures a disk instead."""
EXAMPLES = (
    Example("doctor", "All checks of the cluster of the profile in use."),
    Example("doctor -b kafka.example.com:9093 --command-config tls.properties", "The way to a listener with TLS and a login."),
    Example("doctor --json", "An object for each check, for monitoring."),
)
DEFAULTS: dict[str, Any] = {"request_timeout_ms": 5000, "default_api_timeout_ms": 10_000}
"""The patience of a check, unless -X gives another."""


def build(parser: Parser) -> None:
    parser.description, parser.examples = DESCRIPTION, EXAMPLES
    add_options(parser)
    disk.add_to(parser.group(_run))


def _run(options: argparse.Namespace) -> int:
    import asyncio

    from ottla.client.settings.clients import AdminSettings
    from ottla.client.settings.properties import values_of

    given = {**DEFAULTS, **values_of(AdminSettings, connection.client_texts(options, AdminSettings))}
    return asyncio.run(_print_findings(given, as_json=options.json))


async def _print_findings(given: dict[str, Any], *, as_json: bool) -> int:
    """Print each finding as soon as its check has ended. Return the exit code."""
    from ottla.cli.doctor.findings import FAIL

    has_failed = False
    async for finding in _findings(given):
        has_failed = has_failed or finding.status == FAIL
        print(finding.line(as_json=as_json), flush=True)
    return int(has_failed)


async def _findings(given: dict[str, Any]) -> AsyncIterator[HealthFinding]:
    """Yield the findings of all checks, with clients of these settings."""
    from ottla.cli.doctor.cluster_state import ClusterState
    from ottla.cli.doctor.connections import ServerCheck
    from ottla.cli.doctor.environment import check_machine
    from ottla.client.settings.addresses import parse_servers
    from ottla.client.settings.clients import AdminSettings, parse
    from ottla.net.client.admin.async_admin import AsyncAdmin
    from ottla.net.client.link import security_of

    settings = parse(AdminSettings, given)
    security = security_of(settings)
    servers = [ServerCheck(host, port, settings, security) for host, port in parse_servers(settings.bootstrap_servers)]
    try:
        for server in servers:
            async for finding in server.findings():
                yield finding
        if (reached := next((server for server in servers if server.link is not None), None)) is not None:
            assert reached.link is not None
            async with AsyncAdmin(**given) as admin:
                async for finding in ClusterState(reached.link, reached.highest, settings, security).findings(admin):
                    yield finding
    finally:
        for server in servers:
            if server.link is not None:
                server.link.close()
    for finding in check_machine():
        yield finding
