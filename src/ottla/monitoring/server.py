"""The HTTP server of a broker's metrics, in the broker's process and on a thread of its own."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Self

from ottla.monitoring.app import make_app
from ottla.web.address import WebAddress
from ottla.web.guard import RequestGuard, hosts_of
from ottla.web.server import WebServer

if TYPE_CHECKING:
    from ottla.net.process.embedded_broker import Broker
    from ottla.net.server.metrics_source import MetricsSource
    from ottla.net.startup.start import Running

OPTION = "--metrics"


class MetricsServer:
    """A server of /metrics, /health and /ready for one broker.

        with ottla.Broker(ottla_metrics_enable=True) as broker, MetricsServer(broker, "127.0.0.1:0") as server:
            print(server.url)  # http://127.0.0.1:…

    The pages have names of topics and groups and no secrets, so any address is permitted. On an address of this machine alone, a
    request must have one of its names as host, so that a page of a browser's other site cannot read them.
    """

    def __init__(self, broker: Broker, address: str) -> None:
        self._server = server_for(broker.metrics(), WebAddress.parse(address))

    @property
    def url(self) -> str:
        """Return the server's URL, without a slash at its end."""
        return self._server.url

    def __enter__(self) -> Self:
        self._server.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._server.stop()


class MetricsCompanion:
    """The server of metrics in the process of `ottla serve`."""

    def __init__(self, address: WebAddress) -> None:
        self._address = address
        self._server: WebServer | None = None

    def start(self, running: Running) -> str:
        """Show the metrics of a broker. Return a line. Raises `CannotServe`."""
        self._server = server_for(running.metrics(), self._address).start()
        return f"The metrics are at {self._server.url}/metrics"

    def stop(self) -> None:
        if self._server is not None:
            self._server.stop()


def server_for(source: MetricsSource, address: WebAddress) -> WebServer:
    """Return a server of a broker's metrics that is not started."""
    guarded = RequestGuard(make_app(source), hosts=hosts_of(address) if address.is_loopback else None, most_body=0)
    return WebServer(guarded, address, name="metrics server", option=OPTION)
