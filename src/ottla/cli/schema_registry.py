"""`ottla schema-registry`: a schema registry over any Kafka, and `ottla serve --schema-registry`: one beside a broker."""

from __future__ import annotations

import argparse
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.cli.command import arguments
from ottla.cli.command.connection import SERVERS_VARIABLE, WHERE, add_client_options, settings
from ottla.cli.command.parser import Example
from ottla.cli.command.web_options import add_web_options, address_of, parse_address
from ottla.errors import SettingError

if TYPE_CHECKING:
    from ottla.cli.command.parser import Parser
    from ottla.net.startup.start import Running
    from ottla.schema_registry.server.instance import ListenOptions, SchemaRegistryInstance

ADDRESS = "127.0.0.1:8081"
TOPIC, GROUP = "_schemas", "schema-registry"
LONG_S = 3600.0
DESCRIPTION = f"""Run a schema registry with the HTTP API of Confluent's, until SIGTERM or Ctrl-C: Avro, JSON Schema and Protobuf.
Its schemas are in the topic {TOPIC} of the cluster, in Confluent's format. Several instances elect a leader, to which the others
forward changes. See also `ottla schema`."""
EXAMPLES = (
    Example("schema-registry -b localhost:9092", f"Serve at {ADDRESS}."),
    Example("schema-registry --listen 127.0.0.1:8082 --topic _schemas2 --group registry2", "A second registry of the cluster."),
    Example("schema-registry --users users.txt", "With logins: a line NAME:PASSWORD for each user."),
)


def build(parser: Parser) -> None:
    parser.description, parser.examples = DESCRIPTION, EXAMPLES
    help_text = (
        f"the bootstrap servers of Kafka 0.11 or newer (default: ${SERVERS_VARIABLE}, then the profile in use, then {WHERE})"
    )
    parser.add_argument("-b", "--bootstrap-server", metavar="HOST:PORT[,…]", type=arguments.given, help=help_text)
    add_client_options(parser)
    parser.add_argument("--listen", metavar="HOST:PORT", default=ADDRESS, help=f"where to serve (default {ADDRESS})")
    help_text = "the address at which other instances reach this one (default: where it listens)"
    parser.add_argument("--advertise", metavar="HOST:PORT", help=help_text)
    parser.add_argument("--topic", default=TOPIC, help=f"the topic of the schemas (default {TOPIC})")
    parser.add_argument("--group", default=GROUP, help=f"the group in which instances elect their leader (default {GROUP})")
    parser.add_argument("--users", metavar="FILE", help="ask for a login, of these users: a line NAME:PASSWORD for each")
    add_web_options(parser)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from ottla.web.extra import require_packages

    require_packages("The schema registry")
    from ottla.cli.command.exits import fail
    from ottla.cli.command.signals import Interruption
    from ottla.client.settings.clients import AdminSettings
    from ottla.net.startup import log_output
    from ottla.web.address import CannotServe

    client = settings(options, AdminSettings)
    log_output.set_up("text", "warning", None)
    instance = _instance(options, client, options.listen, "--listen")
    with Interruption() as interruption:
        try:
            with instance:
                print(
                    f"The schema registry answers at {instance.server.url} (brokers at {client['bootstrap_servers']})", flush=True
                )
                while not interruption.stop.is_set():
                    interruption.sleep(LONG_S)
        except CannotServe as error:
            return fail(str(error))
    return 0


def _instance(options: argparse.Namespace, client: Mapping[str, Any], address: str, option: str) -> SchemaRegistryInstance:
    """Return the instance that the options describe, which is not started. Raises `SettingError`."""
    from ottla.schema_registry.server.instance import SchemaRegistryInstance
    from ottla.schema_registry.server.registry import RegistryOptions

    own = RegistryOptions(getattr(options, "topic", TOPIC), getattr(options, "group", GROUP))
    return SchemaRegistryInstance(client, _listen_options(options, address, option), own, option)


def _listen_options(options: argparse.Namespace, address: str, option: str) -> ListenOptions:
    from ottla.schema_registry.server.instance import ListenOptions
    from ottla.web.address import WebAddress

    where, tls = address_of(options, address, option)
    advertised = getattr(options, "advertise", None)
    own = None if advertised is None else parse_address(advertised, "--advertise")
    if own is None and where.is_wildcard:
        own = WebAddress(socket.gethostname(), where.port)
    users = getattr(options, "users", None)
    return ListenOptions(where, own, tls, {} if users is None else _read_users(users), options.allow_host)


def _read_users(path: str) -> dict[str, str]:
    """Return the passwords of a file by user. Raises `SettingError`."""
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingError(f"--users: cannot read {path} ({error}): name a readable text file.") from None
    pairs = [line.partition(":")[::2] for line in lines if line.strip() and not line.startswith("#")]
    if not pairs or not all(user and password for user, password in pairs):
        raise SettingError(f"--users: {path} must have a line NAME:PASSWORD for each user.")
    return dict(pairs)


def registry_of(options: argparse.Namespace) -> RegistryCompanion:
    """Return the schema registry that the options of `ottla serve` name. Raises `SettingError`."""
    from ottla.cli.command.connection import read_config
    from ottla.client.settings.clients import AdminSettings
    from ottla.client.settings.properties import values_of
    from ottla.web.extra import require_packages

    require_packages("The schema registry")
    if options.processes is not None:
        raise SettingError("--schema-registry is for one broker: with --processes, run `ottla schema-registry` beside them.")
    address_of(options, options.schema_registry, "--schema-registry")  # a wrong address is an error before the broker starts
    return RegistryCompanion(options, values_of(AdminSettings, read_config(options.schema_registry_config, AdminSettings)))


class RegistryCompanion:
    """A schema registry as a companion of a broker (`ottla.net.process.serve`)."""

    def __init__(self, options: argparse.Namespace, client: Mapping[str, Any]) -> None:
        self._options, self._client = options, client
        self._instance: SchemaRegistryInstance | None = None

    def start(self, running: Running) -> str:
        """Serve the registry of the broker. Return a line. Raises `CannotServe`, `KafkaError`."""
        from ottla.cli.companion_client import client_of

        client = {**client_of(running.addresses), **self._client}
        self._instance = _instance(self._options, client, self._options.schema_registry, "--schema-registry").start()
        return f"The schema registry answers at {self._instance.server.url}"

    @property
    def url(self) -> str:
        """Return the URL for a client on this machine; empty before the start, and with TLS, whose authority is unknown."""
        return "" if self._instance is None or self._options.tls_certificate else self._instance.server.url

    def stop(self) -> None:
        if self._instance is not None:
            self._instance.stop()
