"""`ottla serve`: a broker as its own process."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING

from ottla.cli.command.parser import Example
from ottla.cli.command.web_options import add_web_options, parse_address

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ottla.broker.settings import BrokerSettings
    from ottla.cli.command.parser import Parser
    from ottla.net.process.serve import Companion
    from ottla.net.server.listeners import Listen
EXAMPLES = (
    Example("serve --data-dir data --listen 127.0.0.1:9092", "A broker on this machine."),
    Example(
        "serve --data-dir data --listen 127.0.0.1:9092 --set num.partitions=6 --log-level warning",
        "With a setting, and without lines of information.",
    ),
    Example("serve --data-dir data --listen 127.0.0.1:9092 --config broker.properties", "With the settings of a file."),
    Example("serve --data-dir data --listen 127.0.0.1:9092 --console 127.0.0.1:8080", "With the console's pages in a browser."),
    Example("serve --data-dir data --listen 127.0.0.1:9092 --metrics 127.0.0.1:9404", "With metrics for Prometheus."),
    Example("serve --data-dir data --listen 127.0.0.1:9092 --schema-registry 127.0.0.1:8081", "With a schema registry."),
)


def build(command: Parser) -> None:
    command.description = "Run a broker until SIGTERM or Ctrl-C."
    command.examples = EXAMPLES
    command.add_argument(
        "--data-dir",
        required=True,
        metavar="DIR",
        help="the directory of topics, offsets and the registry; the setting log.dirs names more for topics",
    )
    command.add_argument(
        "--listen",
        action="append",
        metavar="HOST:PORT[,release=RELEASE][,security=PROTOCOL][,name=NAME]",
        help="where to listen, which release of Kafka to be there, and which security protocol to speak (PLAINTEXT, SSL, "
        "SASL_PLAINTEXT, SASL_SSL); may be given several times (default: the setting listeners, 127.0.0.1:9092)",
    )
    command.add_argument(
        "--registry",
        metavar="ADDRESS",
        help="the registry of the cluster that this broker belongs to: zookeeper://HOST:PORT,HOST:PORT/PATH, or sqlite:DIR for "
        "brokers of one host (default: the setting zookeeper.connect, or a registry of its own in DIR, for one broker alone)",
    )
    command.add_argument("--node-id", type=int, metavar="N", help="the broker's node id (default: the setting node.id)")
    command.add_argument(
        "--processes",
        type=int,
        metavar="N",
        help="run N brokers as processes of this host, with DIR/1 to DIR/N and a registry in DIR that they share; each --listen is "
        "the first of N ports in a row",
    )
    command.add_argument(
        "--metrics",
        metavar="HOST:PORT",
        help="also serve metrics for Prometheus over HTTP there, at /metrics; /health says whether the broker answers, and /ready "
        "whether it is ready; with --processes, the first of N ports in a row (pip install 'ottla[console]')",
    )
    command.add_argument("--supervised", action="store_true", help=argparse.SUPPRESS)  # set for a broker of `serve --processes`
    command.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a broker setting by Kafka's name")
    command.add_argument("--config", metavar="FILE", help="a properties file of broker settings, as Kafka's server.properties")
    command.add_argument("--log-format", choices=("text", "json"), default="text", help="the format of log lines (default text)")
    command.add_argument("--log-level", choices=("debug", "info", "warning", "error"), default="info", help="default info")
    command.add_argument("--console", metavar="HOST:PORT", help="also serve the console's pages there, such as 127.0.0.1:8080")
    command.add_argument("--console-read-only", action="store_true", help="let the console refuse every change")
    help_text = "a properties file of the console's client: a trust store, or a user for all visitors"
    command.add_argument("--console-config", metavar="FILE", help=help_text)
    help_text = "also serve a schema registry there, such as 127.0.0.1:8081; its schemas are in the topic _schemas"
    command.add_argument("--schema-registry", metavar="HOST:PORT", help=help_text)
    help_text = "a properties file of the schema registry's client: a trust store, or a user"
    command.add_argument("--schema-registry-config", metavar="FILE", help=help_text)
    add_web_options(command)
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    from ottla.broker.settings import SettingError
    from ottla.cli.command.exits import MISUSED, fail
    from ottla.net.startup import log_output

    log_output.set_up(options.log_format, options.log_level, options.node_id if options.supervised else None)
    try:
        settings, listen = _wanted(options)
        companions = _companions(options, settings)
        if options.processes is not None:
            from ottla.cli import processes

            processes.check(options, settings, listen)
    except (SettingError, ValueError) as error:
        return fail(str(error), MISUSED)
    if options.processes is not None:
        from ottla.cli import processes

        return processes.run(options, settings, listen)
    return _serve(options, settings, listen, companions)


def _serve(options: argparse.Namespace, settings: BrokerSettings, listen: list[Listen], companions: Sequence[Companion]) -> int:
    from ottla.broker.membership.membership import NotAMember
    from ottla.broker.settings import SettingError
    from ottla.cli.command.exits import BROKEN, MISUSED, announce, fail
    from ottla.net.process.serve import serve
    from ottla.net.server.exception_boundary import BrokerFailed
    from ottla.net.server.listeners import CannotListen
    from ottla.net.startup.data_directory import DataDirectoryError
    from ottla.web.address import CannotServe

    try:
        serve(options.data_dir, listen, settings, announce, is_supervised=options.supervised, companions=companions)
    except SettingError as error:
        return fail(str(error), MISUSED)
    except (DataDirectoryError, CannotListen, NotAMember, CannotServe) as error:
        return fail(str(error))
    except BrokerFailed as failed:
        return fail(str(failed), BROKEN)
    return 0


def _companions(options: argparse.Namespace, settings: BrokerSettings) -> list[Companion]:
    """Return the servers that run beside the broker. Raises `SettingError`, and ValueError with a sentence."""
    found: list[Companion] = []
    registry = None
    if options.schema_registry is not None:
        from ottla.cli.schema_registry import registry_of

        registry = registry_of(options)
        found.append(registry)
    if options.console is not None:
        from ottla.cli.serve_console import console_of

        found.append(console_of(options, registry))
    if options.metrics is not None:
        from ottla.web.extra import require_packages

        require_packages("--metrics")
        from ottla.monitoring.server import MetricsCompanion

        found.append(MetricsCompanion(parse_address(options.metrics, "--metrics")))
    if settings.ottla_opentelemetry_enable and options.processes is None:  # with processes, each broker has its own export
        from ottla.monitoring.opentelemetry import OpenTelemetryCompanion

        found.append(OpenTelemetryCompanion())
    return found


def _wanted(options: argparse.Namespace) -> tuple[BrokerSettings, list[Listen]]:
    """Return the settings and the listeners of the broker.

    Raises `SettingError`, and ValueError with a sentence.
    """
    from ottla.broker.settings import BrokerSettings, SettingError
    from ottla.net.server.listeners import Listen

    measured = {} if options.metrics is None else {"ottla.metrics.enable": "true"}
    wanted = measured | given(options.config, options.set) | _of_cluster(options)
    settings = BrokerSettings.parse(wanted)
    listen = [_with_release(Listen.parse(text), settings) for text in options.listen or ()]
    names = {where.name for where in listen} | {listener.name for listener in settings.listeners}
    strangers = dict(settings.ottla_listener_releases).keys() - names
    if strangers:
        raise SettingError(f"ottla.listener.releases names {min(strangers)}, which is not in listeners: add it there.")
    listen = listen or [
        Listen(host, port, name, settings.release_of(name))
        for name, host, port in settings.listeners
        if name not in (settings.controller_listener_names or ())
    ]
    if all(where.release is listen[0].release for where in listen):  # the release of all listeners also determines its defaults
        settings = BrokerSettings.parse(listen[0].release.settings() | wanted)
    return settings, listen


def _with_release(listen: Listen, settings: BrokerSettings) -> Listen:
    """Return a listener of --listen with its release, which the option or the settings for the listener's name specify."""
    return replace(listen, release=settings.release_of(listen.name)) if listen.release.is_today else listen


def _of_cluster(options: argparse.Namespace) -> dict[str, str]:
    """Return the settings that have the cluster's registry and the node id."""
    from ottla.broker.settings import registry_settings

    registry = {} if options.registry is None else registry_settings(options.registry)
    return registry if options.node_id is None else registry | {"node.id": str(options.node_id)}


def given(config: str | None, pairs: list[str]) -> dict[str, str]:
    """Return the settings of the file. Settings of the command line replace them."""
    from ottla.broker.settings import SettingError
    from ottla.cli.command.files import read_properties

    wanted = {} if config is None else read_properties(config, "a readable properties file with --config")
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise SettingError(f"{pair!r} has no value: write --set NAME=VALUE, such as --set num.partitions=3.")
        wanted[name.strip()] = value.strip()
    return wanted
