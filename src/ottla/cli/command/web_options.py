"""The options of commands that serve HTTP: addresses, TLS, host names, and the word that allows unencrypted pages for others."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from ottla.errors import SettingError

if TYPE_CHECKING:
    from ottla.web.address import WebAddress
    from ottla.web.server import TlsFiles, WebServer

INSECURE = "--insecure-http"


def add_web_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that all HTTP servers of a command share."""
    parser.add_argument("--tls-certificate", metavar="FILE", help="serve HTTPS, with this PEM file of a certificate chain")
    parser.add_argument("--tls-key", metavar="FILE", help="the PEM file of its key, if the chain's file does not have it")
    help_text = "allow HTTP without TLS on addresses that other machines can reach"
    parser.add_argument(INSECURE, action="store_true", help=help_text)
    help_text = "a host name by which HTTP requests may name this server, such as that of a proxy; can be repeated"
    parser.add_argument("--allow-host", action="append", default=[], metavar="NAME", help=help_text)


def server_of(options: argparse.Namespace, app: Any, address: str, *, name: str, option: str) -> WebServer:
    """Return the server of an application, guarded and not started yet. `option` has its address. Raises `SettingError`."""
    from ottla.web.guard import RequestGuard, hosts_of
    from ottla.web.server import WebServer

    where, tls = address_of(options, address, option)
    guarded = RequestGuard(app, hosts=hosts_of(where, options.allow_host))
    return WebServer(guarded, where, name=name, option=option, tls=tls)


def parse_address(text: str, option: str) -> WebAddress:
    """Return the address that an option gives. Raises `SettingError`."""
    from ottla.web.address import WebAddress

    try:
        return WebAddress.parse(text)
    except ValueError as error:
        raise SettingError(f"{option}: {error}") from None


def address_of(options: argparse.Namespace, address: str, option: str) -> tuple[WebAddress, TlsFiles | None]:
    """Return the address of an option, and the files of a certificate. Raises `SettingError` if others could read what is sent."""
    from ottla.web.server import TlsFiles

    where = parse_address(address, option)
    try:
        where.refuse_exposed(has_tls=options.tls_certificate is not None, is_allowed=options.insecure_http, option=INSECURE)
    except ValueError as error:
        raise SettingError(f"{option}: {error}") from None
    if options.tls_key and not options.tls_certificate:
        raise SettingError("--tls-key has no effect without --tls-certificate: give both.")
    return where, TlsFiles(options.tls_certificate, options.tls_key) if options.tls_certificate else None
