"""The checks of the connection to a broker: host name, port, TLS, login, and the API versions that the broker serves."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
import time
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from ottla.cli.doctor.findings import FAIL, OK, WARN, HealthFinding
from ottla.client.errors import KafkaError, TimedOut
from ottla.net.client.failures import PERHAPS_SASL, no_connection
from ottla.net.client.link import Link
from ottla.version import VERSION
from ottla.wire import releases
from ottla.wire.api.api_versions import ApiVersionsRequest

if TYPE_CHECKING:
    from ottla.client.settings.clients import AdminSettings
    from ottla.net.client.security import Security

SOON_DAYS = 30
"""The days before a certificate's end from which on the check warns."""
DAY_S = 86_400


class ServerCheck:
    """The check of one bootstrap server. `link` is open afterwards if all steps before the first request have succeeded."""

    def __init__(self, host: str, port: int, settings: AdminSettings, security: Security | None) -> None:
        self.link: Link | None = None
        self.highest: dict[int, int] = {}
        """The highest version of each API key that the broker serves; empty while unknown."""
        self._host, self._port, self._where = host, port, f"{host}:{port}"
        self._settings, self._security = settings, security

    async def findings(self) -> AsyncIterator[HealthFinding]:
        """Yield the finding of each step, up to the first step that fails."""
        address = await self._resolve()
        yield address
        if address.status == FAIL:
            return
        reached = await self._connect()
        yield reached
        if reached.status == FAIL:
            return
        if self._security is not None and self._security.context is not None:
            secured = await self._secure(self._security.context)
            yield secured
            if secured.status == FAIL:
                return
        logged_in = await self._log_in()
        if self.link is None or self._settings.api_version:
            yield logged_in
            return
        versions = await self._read_versions(self.link)
        if versions.status == FAIL and not self._settings.uses_sasl:  # a listener with SASL answers one request without a login
            self.link.close()
            self.link = None
            yield versions._replace(check="login", sentence=f"{versions.sentence}{PERHAPS_SASL}")
            return
        yield logged_in
        yield versions

    async def _resolve(self) -> HealthFinding:
        try:
            found = await asyncio.get_running_loop().getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
        except OSError as error:
            sentence = f"{self._host} cannot be resolved ({error.strerror}): check the name, and the DNS of this machine."
            return HealthFinding(FAIL, "address", sentence)
        addresses = dict.fromkeys(str(each[4][0]) for each in found)
        if self._host in addresses:
            return HealthFinding(OK, "address", f"{self._host} is an IP address, port {self._port}.")
        return HealthFinding(OK, "address", f"{self._host} is {', '.join(addresses)}.")

    async def _connect(self) -> HealthFinding:
        began = time.monotonic()
        try:
            await self._open(None)
        except (OSError, KafkaError) as error:
            advice = "check that a broker listens there, and that no firewall is between."
            return HealthFinding(FAIL, "connection", f"{_failure(self._where, error).rstrip('.')}: {advice}")
        return HealthFinding(OK, "connection", f"{self._where} accepts connections, after {_ms_since(began)}.")

    async def _open(self, context: ssl.SSLContext | None) -> ssl.SSLObject | None:
        """Open and close a connection. Return its TLS object, or None without TLS. Raises `OSError` and `TimedOut`."""
        name = self._host if context is not None else None
        opening = asyncio.open_connection(self._host, self._port, ssl=context, server_hostname=name)
        timeout_ms = self._settings.request_timeout_ms
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                _, writer = await opening
        except TimeoutError as error:
            if error.errno:  # the system's own time-out
                raise
            raise TimedOut(f"No connection to {self._where}: no answer within {timeout_ms} ms.") from None
        end: ssl.SSLObject | None = writer.get_extra_info("ssl_object")
        writer.transport.abort()
        return end

    async def _secure(self, context: ssl.SSLContext) -> HealthFinding:
        from ottla.net.client.failures import ended_early, not_secured

        began = time.monotonic()
        try:
            end = await self._open(context)
        except ssl.SSLError as error:
            return HealthFinding(FAIL, "TLS", str(not_secured(self._where, error)))
        except ConnectionError as error:
            return HealthFinding(FAIL, "TLS", str(no_connection(self._where, error) if error.errno else ended_early(self._where)))
        except (OSError, KafkaError) as error:
            return HealthFinding(FAIL, "TLS", _failure(self._where, error))
        assert end is not None, "the connection has TLS"
        words = f"{self._where} speaks {end.version()} after {_ms_since(began)}"
        expiry = (end.getpeercert() or {}).get("notAfter")
        if not isinstance(expiry, str):
            return HealthFinding(
                WARN, "TLS", f"{words}; its certificate is not verified: verify it, so that nobody can pose as the broker."
            )
        return _expiry(words, expiry)

    async def _log_in(self) -> HealthFinding:
        settings, began = self._settings, time.monotonic()
        try:
            self.link = await Link.open(
                self._host, self._port, settings.client_id, settings.request_timeout_ms, settings.api_version, self._security
            )
        except KafkaError as error:
            sentence = str(error) if self._where in str(error) else f"{self._where}: {error}"
            return HealthFinding(FAIL, "login", sentence)
        if settings.api_version:
            self.highest = releases.highest(settings.api_version)
        if not settings.uses_sasl:
            return HealthFinding(OK, "login", f"{self._where} answers requests without a password, after {_ms_since(began)}.")
        words = f"{self._where} accepts the login by {settings.sasl_mechanism}, after {_ms_since(began)}"
        if settings.sasl_mechanism == "PLAIN" and not settings.uses_tls and not _is_loopback(self._host):
            return HealthFinding(WARN, "login", f"{words}; the password crosses the network unencrypted: use SASL_SSL.")
        return HealthFinding(OK, "login", f"{words}.")

    async def _read_versions(self, link: Link) -> HealthFinding:
        request = ApiVersionsRequest(client_software_name="ottla", client_software_version=VERSION)
        try:
            answer = await link.request(request, self._settings.request_timeout_ms)
        except KafkaError as error:
            return HealthFinding(FAIL, "versions", str(error))
        self.highest = {api.api_key: api.max_version for api in answer.api_keys}
        release = releases.release_like(self.highest)
        words = f"{self._where} serves {len(self.highest)} APIs"
        if release is None:
            return HealthFinding(WARN, "versions", f"{words}, of no known release of Kafka: `ottla protocol` shows the known ones.")
        return HealthFinding(OK, "versions", f"{words}, as Apache Kafka {release}.")


async def reach(host: str, port: int, settings: AdminSettings, security: Security | None) -> str:
    """Open a link to a broker, log in, and close the link. Return the time that this took, as text. Raises `KafkaError`."""
    began = time.monotonic()
    link = await Link.open(host, port, settings.client_id, settings.request_timeout_ms, settings.api_version, security)
    link.close()
    return _ms_since(began)


def _failure(where: str, error: OSError | KafkaError) -> str:
    return str(error if isinstance(error, KafkaError) else no_connection(where, error))


def _expiry(words: str, expiry: str) -> HealthFinding:
    """Return the finding about a verified certificate that ends at `expiry`, as `ssl` formats times."""
    days = int((ssl.cert_time_to_seconds(expiry) - time.time()) // DAY_S)
    if days < SOON_DAYS:
        return HealthFinding(WARN, "TLS", f"{words}; its certificate expires in {days} days ({expiry}): renew it there.")
    return HealthFinding(OK, "TLS", f"{words}; its certificate is trusted for {days} days.")


def _ms_since(began: float) -> str:
    return f"{(time.monotonic() - began) * 1000:.1f} ms"


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
