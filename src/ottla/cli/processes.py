"""`ottla serve --processes N`: N brokers on one host, each with its own process, directory, ports and node id.

`ottla.net.process.supervisor` runs them.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ottla.cli.command.web_options import parse_address

if TYPE_CHECKING:
    from ottla.broker.settings import BrokerSettings
    from ottla.net.server.listeners import Listen

REGISTRY: Final = "registry"
DEFAULTS: Final = {
    "controlled.shutdown.retry.backoff.ms": "500",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
}
"""Settings for which Kafka's defaults assume several hosts. Several replicas on one host's disk would not make data safer."""


def run(options: argparse.Namespace, settings: BrokerSettings, listen: Sequence[Listen]) -> int:
    """Run the brokers until SIGTERM or Ctrl-C; return the exit code."""
    import asyncio
    import time

    from ottla.cli.command.exits import COULD_NOT, announce, fail
    from ottla.net.process.supervisor import CouldNotStart, supervise
    from ottla.net.server.listeners import CannotListen

    began = time.perf_counter()
    try:
        listen = [_with_port(where) for where in listen]
    except CannotListen as error:
        return fail(str(error))
    commands = [[*_command(options, settings, listen, number)] for number in range(1, options.processes + 1)]

    def answers() -> None:
        announce(_line(options, listen, time.perf_counter() - began))

    try:
        asyncio.run(supervise(commands, answers))
    except CouldNotStart as failed:
        return fail(str(failed), max(failed.code, COULD_NOT))
    return 0


def check(options: argparse.Namespace, settings: BrokerSettings, listen: Sequence[Listen]) -> None:
    """Raise `SettingError` for options that contradict each other."""
    from ottla.errors import SettingError
    from ottla.net.startup.data_directory import META

    root, count = Path(options.data_dir), options.processes
    if count < 1:
        raise SettingError(f"--processes must be 1 or more, not {count}: give the number of brokers, such as --processes 2.")
    if settings.registry_address is not None or settings.node_id is not None:
        raise SettingError("--processes sets the registry and the node ids: leave out --registry, --node-id and their settings.")
    if settings.log_dirs:
        raise SettingError(
            "--processes cannot share log.dirs among brokers: leave the setting out, or start each broker by itself."
        )
    if (root / META).exists():
        raise SettingError(
            f"{root} is the data directory of a single broker: choose another, and copy its registry with "
            f"`ottla registry copy {root} sqlite:DIR/{REGISTRY}`; {root} then becomes DIR/1."
        )
    numbers = (int(meta.parent.name) for meta in root.glob(f"*/{META}") if meta.parent.name.isdecimal())
    last = max(numbers, default=0)
    if last > count:
        raise SettingError(
            f"{root} has data of broker {last}, which would not be started: use --processes {last}, or move its partitions away "
            f"with `ottla cluster drain {last}` and remove {root / str(last)}."
        )
    firsts = [where.port for where in listen]
    if options.metrics is not None:
        firsts.append(parse_address(options.metrics, "--metrics").port)
    ports = [port + number for port in firsts if port for number in range(count)]
    if len(set(ports)) < len(ports) or max(ports, default=0) > 65535:
        raise SettingError(
            f"Each of {count} brokers needs its own port, {count} in a row from each --listen and --metrics: choose ports up to "
            f"{65536 - count} that are at least {count} apart."
        )


def _with_port(where: Listen) -> Listen:
    """Return the listener with a free port in place of port 0, because brokers must keep their ports across restarts.

    The ports after it, which other brokers get, may be in use. Raises `CannotListen`.
    """
    import socket

    from ottla.net.server.listeners import cannot_listen

    if where.port:
        return where
    try:
        with socket.create_server((where.host, 0), family=socket.AF_INET6 if ":" in where.host else socket.AF_INET) as free:
            return replace(where, port=free.getsockname()[1])
    except (OSError, UnicodeError) as error:
        raise cannot_listen(where, error) from error


def _command(options: argparse.Namespace, settings: BrokerSettings, listen: Sequence[Listen], number: int) -> Iterator[str]:
    """Yield the words of the command line that starts broker `number`."""
    yield from (sys.executable, "-m", "ottla", "serve", "--supervised", "--node-id", str(number))
    yield from ("--data-dir", str(Path(options.data_dir, str(number))))
    yield from ("--registry", f"sqlite:{Path(options.data_dir, REGISTRY)}")
    yield from ("--log-format", options.log_format, "--log-level", options.log_level)
    if options.config is not None:
        yield from ("--config", options.config)
    for pair in options.set:
        yield from ("--set", pair)
    for where in listen:
        yield from ("--listen", moved(where, number).text)
    if options.metrics is not None:
        yield from ("--metrics", _metrics_of(options.metrics, number))
    told = settings.advertised_listeners
    if told:
        shifted = ",".join(str(address._replace(port=address.port + number - 1)) for address in told)
        yield from ("--set", f"advertised.listeners={shifted}")
    for name, value in DEFAULTS.items():
        if name not in settings.given:
            yield from ("--set", f"{name}={value}")


def _metrics_of(text: str, number: int) -> str:
    """Return the address of the metrics of broker `number`: each broker has another port, and port 0 is a free one."""
    first = parse_address(text, "--metrics")
    return str(replace(first, port=first.port + number - 1 if first.port else 0))


def moved(where: Listen, number: int) -> Listen:
    """Return the listener of broker `number`: each broker has another port."""
    return replace(where, port=where.port + number - 1)


def _line(options: argparse.Namespace, listen: Sequence[Listen], took_s: float) -> str:
    from ottla.version import VERSION

    places = ", ".join(str(moved(where, number)) for where in listen for number in range(1, options.processes + 1))
    count = f"{options.processes} brokers, " if options.processes > 1 else ""
    return f"Ottla {VERSION} answers at {places} ({count}data in {options.data_dir}, started in {took_s * 1000:.0f} ms)"
