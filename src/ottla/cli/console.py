"""`ottla console`: the pages about a cluster in a browser, of any Kafka."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ottla.cli.command import arguments
from ottla.cli.command.connection import SERVERS_VARIABLE, WHERE, add_client_options, client_texts
from ottla.cli.command.parser import Example
from ottla.cli.command.web_options import add_web_options, server_of

if TYPE_CHECKING:
    from ottla.cli.command.parser import Parser

ADDRESS = "127.0.0.1:8080"
LONG_S = 3600.0
DESCRIPTION = f"""Show a cluster in a browser, any Kafka: brokers, topics, settings, users, ACLs, quotas and transactions, live. It
serves pages at {ADDRESS}, and the same content as JSON below /api, until SIGTERM or Ctrl-C. It connects as any other command does;
if the cluster has logins and no user is given, each visitor logs in on a page."""
EXAMPLES = (
    Example("console -b localhost:9092", "Pages about the cluster of this broker."),
    Example("console --listen 127.0.0.1:8081 --read-only", "On another port, of the profile in use, without any change."),
    Example(
        "console -X security.protocol=SASL_PLAINTEXT --schema-registry http://localhost:8081",
        "With a page to log in, and with schemas.",
    ),
)


def build(parser: Parser) -> None:
    parser.description, parser.examples = DESCRIPTION, EXAMPLES
    help_text = f"the bootstrap servers, of any Kafka (default: ${SERVERS_VARIABLE}, then the profile in use, then {WHERE})"
    parser.add_argument("-b", "--bootstrap-server", metavar="HOST:PORT[,…]", type=arguments.given, help=help_text)
    add_client_options(parser)
    parser.add_argument("--listen", metavar="HOST:PORT", default=ADDRESS, help=f"where to serve pages (default {ADDRESS})")
    add_console_options(parser)
    add_web_options(parser)
    parser.set_defaults(run=_run)


def add_console_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the console's content."""
    parser.add_argument("--read-only", action="store_true", help="refuse every change")
    parser.add_argument("--schema-registry", metavar="URL", default="", help="a schema registry whose schemas are shown")


def _run(options: argparse.Namespace) -> int:
    from ottla.web.extra import require_packages

    require_packages("The console")
    from ottla.cli.command.exits import fail
    from ottla.cli.command.signals import Interruption
    from ottla.client.settings.clients import AdminSettings
    from ottla.client.settings.properties import values_of
    from ottla.console.app import make_app
    from ottla.console.config import ConsoleConfig
    from ottla.net.startup import log_output
    from ottla.web.address import CannotServe

    texts = client_texts(options, AdminSettings)
    config = ConsoleConfig(values_of(AdminSettings, texts), options.read_only, options.schema_registry)
    log_output.set_up("text", "warning", None)
    server = server_of(options, make_app(config), options.listen, name="console", option="--listen")
    with Interruption() as interruption:
        try:
            with server:
                print(f"The console answers at {server.url} (brokers at {texts['bootstrap.servers']})", flush=True)
                while not interruption.stop.is_set():
                    interruption.sleep(LONG_S)
        except CannotServe as error:
            return fail(str(error))
    return 0
