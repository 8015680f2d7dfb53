"""`ottla serve --console`: the console beside the broker, in its process, on a thread of its own."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ottla.cli.command.web_options import server_of
from ottla.errors import KafkaError, SettingError
from ottla.net.server.exception_boundary import BrokerFailed

if TYPE_CHECKING:
    from ottla.cli.schema_registry import RegistryCompanion
    from ottla.net.server.in_flight_source import InFlightSource
    from ottla.net.startup.start import Running
    from ottla.share.in_flight_rows import GroupInFlight, InFlightQuery
    from ottla.web.server import WebServer

OPTION = "--console"


def console_of(options: argparse.Namespace, registry: RegistryCompanion | None) -> ConsoleCompanion:
    """Return the console that the options of `ottla serve` name, with the schemas of `registry`. Raises `SettingError`."""
    from ottla.cli.command.connection import read_config
    from ottla.client.settings.clients import AdminSettings
    from ottla.client.settings.properties import values_of
    from ottla.web.extra import require_packages

    require_packages("The console")
    if options.processes is not None:
        raise SettingError(f"{OPTION} is for one broker: with --processes, run `ottla console -b HOST:PORT` beside them.")
    client = values_of(AdminSettings, read_config(options.console_config, AdminSettings))
    return ConsoleCompanion(options, client, registry)


class ConsoleCompanion:
    """The console as a companion of a broker (`ottla.net.process.serve`)."""

    def __init__(self, options: argparse.Namespace, client: Mapping[str, Any], registry: RegistryCompanion | None = None) -> None:
        """Create a console. `registry` is started before it.

        Raises `SettingError` for an address that is none, or that others can reach without TLS.
        """
        self._options, self._client, self._registry = options, client, registry
        self._server: WebServer | None = None
        self._server_of(None)  # a wrong address is an error before the broker starts

    def _server_of(self, app: Any) -> WebServer:
        return server_of(self._options, app, self._options.console, name="console", option=OPTION)

    def start(self, running: Running) -> str:
        """Serve pages about the broker. Return a line. Raises `CannotServe` and `SettingError`."""
        from ottla.cli.companion_client import client_of
        from ottla.console.app import make_app
        from ottla.console.config import ConsoleConfig

        schemas = "" if self._registry is None else self._registry.url
        client = {**client_of(running.addresses), **self._client}
        config = ConsoleConfig(client, self._options.console_read_only, schemas, BrokerBeside(running.in_flight()))
        self._server = self._server_of(make_app(config)).start()
        return f"The console answers at {self._server.url}"

    def stop(self) -> None:
        if self._server is not None:
            self._server.stop()


class BrokerBeside:
    """The broker of this process, for the console's loop (`ottla.console.config.LocalBroker`)."""

    def __init__(self, source: InFlightSource) -> None:
        self._source = source

    @property
    def node_id(self) -> int:
        return self._source.node_id

    async def read_in_flight(self, queries: Sequence[InFlightQuery]) -> Mapping[str, GroupInFlight]:
        """Return the records in flight of groups. Raises `KafkaError`."""
        try:
            found = await asyncio.wrap_future(self._source.read(queries))
        except BrokerFailed as error:
            raise KafkaError(str(error)) from None
        if found is None:
            raise KafkaError("Too many pages wait for records in flight: the page tries again.")
        return found
