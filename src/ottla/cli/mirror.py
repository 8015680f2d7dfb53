"""`ottla mirror --from 0.7`: copies topics of Kafka 0.7 to a current cluster. `ottla.kafka07.pipelines.mirror` does the work."""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING, Any

from ottla.cli.command.connection import PATIENCE_MS, WHERE, read_config
from ottla.cli.command.exits import MISUSED, fail
from ottla.cli.command.output import as_lines
from ottla.cli.command.parser import Example
from ottla.cli.command.signals import Interruption

if TYPE_CHECKING:
    from ottla.cli.command.parser import Parser
    from ottla.kafka07.pipelines.mirror import MirrorStep

DESCRIPTION = """Copy topics of Kafka 0.7 into another cluster, each message once. Each partition of each broker gets one
there, and keeps its order. The progress is committed for a group of the target: a restart, also after a kill, continues
there. Clusters of Kafka 0.8 and later are mirrored by `ottla pipeline mirror`."""
EXAMPLES = (
    Example(
        "mirror flights --from 0.7 --bootstrap-server old:9092 --to localhost:9092",
        "Copy all messages, and go on with new ones until Ctrl-C.",
    ),
    Example("mirror flights --from 0.7 --bootstrap-server old:9092 --to localhost:9092 --once", "Stop at the current end."),
    Example(
        "mirror flights --from 0.7 --bootstrap-server old:9092 --to localhost:9092 --once --prefix old- --json",
        "Into the topic old-flights, for programs.",
    ),
)


def build(parser: Parser) -> None:
    parser.description = DESCRIPTION
    parser.examples = EXAMPLES
    parser.add_argument("topics", metavar="TOPIC[,…]", help="the topics to mirror")
    parser.add_argument("--from", dest="release", required=True, choices=("0.7",), help="the release of the source")
    where = parser.add_mutually_exclusive_group()
    help_text = f"the source's brokers, or ID:HOST:PORT[,…] with their ids (default: {WHERE})"
    where.add_argument("--bootstrap-server", metavar="HOST:PORT[,…]", default=WHERE, help=help_text)
    where.add_argument("--zookeeper", metavar="HOST:PORT[,…][/PATH]", help="the ZooKeeper of the source's brokers")
    parser.add_argument(
        "--to", required=True, metavar="HOST:PORT[,…]", help="the bootstrap servers of the target cluster, of Kafka 0.11 or newer"
    )
    help_text = "a properties file of client settings for the target cluster, as for Kafka's tools: TLS and SASL"
    parser.add_argument("--to-config", metavar="FILE", help=help_text)
    parser.add_argument("--prefix", default="", metavar="TEXT", help="the prefix of topic names in the target cluster")
    parser.add_argument("--group", metavar="NAME", help="the group that has the progress (default: mirror-of-kafka-0.7)")
    parser.add_argument("--once", action="store_true", help="stop at the current end")
    help_text = "continue at the beginning of the source's log if the next messages were deleted there"
    parser.add_argument("--skip-lost", action="store_true", help=help_text)
    parser.add_argument("--json", action="store_true", help="print a JSON object for each step, on a line of its own")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from ottla.client.settings.clients import AdminSettings
    from ottla.client.settings.properties import values_of
    from ottla.kafka07.pipelines.mirror import GROUP, Mirror07
    from ottla.pipelines.errors import PipelineError

    topics = [name.strip() for name in options.topics.split(",") if name.strip()]
    if not topics:
        return fail("name topics, separated by commas.", MISUSED)
    found = {"zookeeper_connect": options.zookeeper} if options.zookeeper else {"bootstrap_servers": options.bootstrap_server}
    shown = ShownCopies(as_json=options.json)
    try:
        wanted = Mirror07(
            topics,
            {"default_api_timeout_ms": PATIENCE_MS, **found},
            options.to,
            group=options.group or GROUP,
            prefix=options.prefix,
            once=options.once,
            skip_lost=options.skip_lost,
            target_settings=_target_settings(values_of(AdminSettings, read_config(options.to_config))),
        )
        with Interruption() as interruption:
            wanted.run(shown.tell, interruption.stop)
    except PipelineError as error:
        return fail(str(error))
    shown.end()
    return 0


def _target_settings(found: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in found.items() if name != "bootstrap_servers"}


class ShownCopies:
    """The printed progress of a mirror: a line of JSON or text for each step."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._began_s = time.monotonic()
        self._total = 0

    def tell(self, step: MirrorStep) -> None:
        self._total = step.total_messages
        line = as_lines([step.as_row()])[0] if self._as_json else line_of(step)
        print(line, file=sys.stdout, flush=True)

    def end(self) -> None:
        """Print the total of copied messages."""
        if not self._as_json:
            print(f"Done: {self._total:,} messages in {time.monotonic() - self._began_s:.0f} s.")


def line_of(step: MirrorStep) -> str:
    """Return one step as text: copied messages, rates, and remaining bytes."""
    left = "-" if step.lag_bytes is None else f"{step.lag_bytes:,}"
    rates = f"{step.messages_per_second:>11,.0f}/s {step.bytes_per_second / 1e6:>9,.1f} MB/s"
    return f"{step.messages:>11,} messages {rates}   {step.total_messages:>13,} in all   {left} bytes left"
