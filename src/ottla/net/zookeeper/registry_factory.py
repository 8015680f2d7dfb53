"""The opening of a registry in ZooKeeper by a broker's settings: address, timeouts, TLS, login. Messages are for users."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Mapping

from ottla.broker.membership.membership import NotAMember
from ottla.broker.settings import BrokerSettings, SettingError
from ottla.broker.settings.broker_zookeeper import NETTY, NIO
from ottla.net.security.kerberos import initiator, keytab_in
from ottla.net.security.key_stores import load_key, load_trust
from ottla.net.security.tls_versions import VERSIONS, narrow
from ottla.net.zookeeper.address import ZooKeeperAddress, why
from ottla.net.zookeeper.client import Access, ZooKeeperLogin
from ottla.net.zookeeper.digest_md5 import DigestMd5
from ottla.net.zookeeper.registry import ZooKeeperRegistry
from ottla.net.zookeeper.session import ZooKeeperSession
from ottla.net.zookeeper.will import LastWill
from ottla.ports import Post, SessionEvent
from ottla.sasl import jaas
from ottla.sasl.gssapi import GssapiClient

DIGEST = "org.apache.zookeeper.server.auth.DigestLoginModule"
KERBEROS = "com.sun.security.auth.module.Krb5LoginModule"
SERVICE = "zookeeper"
"""The service name of ZooKeeper servers in Kerberos tickets, unless `serviceName` is given."""

JAAS = "ottla.zookeeper.jaas.config"
PROTOCOL = "zookeeper.ssl.protocol"
IDENTIFICATION = "zookeeper.ssl.endpoint.identification.algorithm"
REVOCATION = ("zookeeper.ssl.crl.enable", "zookeeper.ssl.ocsp.enable")


async def open_registry(settings: BrokerSettings, post: Post) -> ZooKeeperRegistry:
    """Return a registry whose session has begun. Raises `SettingError` and `NotAMember`."""
    access = access_by(settings)
    will = LastWill(access.address, {} if access.secure is None else _of_tls(settings))
    session = ZooKeeperSession(access, asyncio.get_running_loop(), post, are_secured=settings.zookeeper_set_acl, will=will)
    turned = asyncio.Event()
    has_begun = False

    def on_event(event: SessionEvent) -> None:
        nonlocal has_begun
        has_begun = event is SessionEvent.BEGUN
        turned.set()

    session.told.append(on_event)
    session.start()
    timeout_ms = settings.zookeeper_connection_timeout_ms or settings.zookeeper_session_timeout_ms
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            while not has_begun and not session.is_login_refused:
                await turned.wait()
                turned.clear()
    except TimeoutError:
        pass
    session.told.remove(on_event)
    if has_begun:
        return ZooKeeperRegistry(session)
    session.abandon()
    if session.is_login_refused:
        raise NotAMember(f"{access.address} refused this broker's login: give it a valid one in ottla.zookeeper.jaas.config.")
    raise NotAMember(await why(access.address, timeout_ms, has_tls=access.secure is not None))


def sought(address: str, timeout_ms: int, post: Post) -> ZooKeeperRegistry:
    """Return a registry at once, before its session begins. The session begins when ZooKeeper is reached. Raises `SettingError`."""
    access = Access(ZooKeeperAddress.parse(address), timeout_ms)
    session = ZooKeeperSession(access, asyncio.get_running_loop(), post, are_secured=False)
    session.start()
    return ZooKeeperRegistry(session)


def access_by(settings: BrokerSettings) -> Access:
    """Return the connection parameters that the settings contain. Raises `SettingError`."""
    address = ZooKeeperAddress.parse(settings.zookeeper_connect or "")
    login = _login(settings.ottla_zookeeper_jaas_config)
    if settings.zookeeper_set_acl and login is None:
        raise SettingError("zookeeper.set.acl needs an authenticated broker: set ottla.zookeeper.jaas.config.")
    if not settings.zookeeper_ssl_client_enable:
        return Access(address, settings.zookeeper_session_timeout_ms, login=login)
    if settings.zookeeper_clientCnxnSocket == NIO:
        raise SettingError(f"zookeeper.clientCnxnSocket has to be {NETTY} where zookeeper.ssl.client.enable is set.")
    made = _tls(settings)  # built now, so that errors are raised at once
    return Access(address, settings.zookeeper_session_timeout_ms, lambda: made, login)


def _login(text: str | None) -> Callable[[str], ZooKeeperLogin] | None:
    """Return a factory of logins for the JAAS configuration `text`, or None without one. Raises `SettingError`."""
    if not text:
        return None
    try:
        module = jaas.parse(text)
    except ValueError as refused:
        raise SettingError(f"{JAAS} {refused}") from None
    if module.name == KERBEROS:
        return _by_kerberos(module.options)
    username, password = module.options.get("username"), module.options.get("password")
    if module.name != DIGEST or username is None or password is None:
        raise SettingError(
            f'{JAAS} has to be {DIGEST} required username="NAME" password="PASSWORD"; or {KERBEROS} required useKeyTab=true '
            'keyTab="FILE" principal="NAME";'
        )
    return lambda host: DigestMd5(username, password)


def _by_kerberos(options: Mapping[str, str]) -> Callable[[str], ZooKeeperLogin]:
    """Return a factory of logins with a keytab, or with the tickets of `kinit` if no keytab is given. Raises `SettingError`."""
    keytab = keytab_in(options, JAAS)
    service = options.get("serviceName", SERVICE)
    return lambda host: GssapiClient(initiator(service, host, keytab))


def _tls(settings: BrokerSettings) -> ssl.SSLContext:
    for name in REVOCATION:
        if settings.text_of(name) == "true":
            raise SettingError(
                f"{name} checks whether certificates are revoked, which is not supported: leave it out, and give "
                "ZooKeeper short-lived certificates."
            )
    algorithm = settings.zookeeper_ssl_endpoint_identification_algorithm
    if algorithm.upper() not in ("HTTPS", ""):
        raise SettingError(f"{IDENTIFICATION} has to be HTTPS, or empty for certificates of any name, not {algorithm}.")
    given = {
        name.removeprefix("zookeeper."): settings.text_of(name) for name in settings.DECLARED if name.startswith("zookeeper.ssl.")
    }
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = bool(algorithm)
    narrow(context, _versions(settings), settings.zookeeper_ssl_cipher_suites or (), _spelt)
    load_key(context, given, _spelt)
    if not load_trust(context, given, _spelt):
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    return context


def _of_tls(settings: BrokerSettings) -> dict[str, str]:
    """Return the settings for connections to ZooKeeper, as the user gave them."""
    wanted = ("zookeeper.connect", "zookeeper.clientCnxnSocket", "zookeeper.ssl.")
    return {name: text for name, text in settings.given.items() if name.startswith(wanted)}


def _versions(settings: BrokerSettings) -> list[ssl.TLSVersion]:
    """Return the allowed TLS versions: the enabled protocols, otherwise the single given protocol, otherwise all versions."""
    named = settings.zookeeper_ssl_enabled_protocols
    if not named and PROTOCOL in settings.given and settings.zookeeper_ssl_protocol in VERSIONS:
        named = (settings.zookeeper_ssl_protocol,)
    return [VERSIONS[name] for name in named or VERSIONS]


def _spelt(name: str) -> str:
    return f"zookeeper.{name}"
