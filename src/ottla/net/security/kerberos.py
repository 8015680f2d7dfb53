"""Kerberos contexts of the operating system's library. They need python-gssapi, the extra `gssapi`.

Tickets and keys come from a keytab. Clients can also use the ticket cache of `kinit`. No password is ever requested.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from ottla.errors import SettingError
from ottla.sasl.gssapi import SecurityFailed

T = TypeVar("T")

MISSING: Final = "GSSAPI needs the Kerberos library and python-gssapi: pip install 'ottla[gssapi]'."


def check_installed() -> None:
    """Raise `SettingError` if the library or python-gssapi is not installed."""
    try:
        import gssapi
    except (ImportError, OSError):
        raise SettingError(MISSING) from None
    assert gssapi


@dataclass(frozen=True, slots=True)
class Keytab:
    """A Kerberos keytab file, and the principal whose key is used. A principal of None means any principal in the file."""

    path: str
    principal: str | None = None

    def check(self, setting: str) -> None:
        """Raise `SettingError` if the file is unreadable."""
        if not os.access(self.path, os.R_OK):
            raise SettingError(f"{setting}: the keytab {self.path} cannot be read: create it with ktutil or kadmin, for this user.")


def keytab_in(options: Mapping[str, str], setting: str) -> Keytab | None:
    """Return the keytab that the options of a login module name, or None for the tickets of `kinit`. Raises `SettingError`."""
    check_installed()
    if "keyTab" not in options:
        return None
    keytab = Keytab(options["keyTab"], options.get("principal"))
    keytab.check(setting)
    return keytab


class GssContext:
    """One side of a GSSAPI security context. `make` creates the library's context at the first step, and can fail like a step."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._context: Any = None

    def step(self, token: bytes) -> bytes:
        def run() -> bytes:
            if self._context is None:
                self._context = self._make()
            return bytes(self._context.step(token or None) or b"")

        return _call(run)

    @property
    def is_complete(self) -> bool:
        return self._context is not None and bool(self._context.complete)

    @property
    def initiator(self) -> str:
        return _call(lambda: str(self._context.initiator_name))

    def wrap(self, message: bytes) -> bytes:
        return _call(lambda: bytes(self._context.wrap(message, False).message))

    def unwrap(self, message: bytes) -> bytes:
        return _call(lambda: bytes(self._context.unwrap(message).message))


def acceptor(keytab: Keytab) -> GssContext:
    """Return a broker's side of a context."""

    def make() -> Any:
        from gssapi import Credentials, SecurityContext

        return SecurityContext(
            creds=Credentials(name=_name(keytab), usage="accept", store={b"keytab": os.fsencode(keytab.path)}), usage="accept"
        )

    return GssContext(make)


def initiator(service: str, host: str, keytab: Keytab | None = None) -> GssContext:
    """Return a client's side of a context for a service on a host. Without `keytab`, the tickets of `kinit` are used."""

    def make() -> Any:
        from gssapi import Credentials, Name, NameType, RequirementFlag, SecurityContext

        store: Any = None if keytab is None else {"client_keytab": keytab.path, "ccache": f"MEMORY:ottla-{id(keytab)}"}
        mine = None if store is None or keytab is None else Credentials(name=_name(keytab), usage="initiate", store=store)
        flags = RequirementFlag.mutual_authentication | RequirementFlag.integrity | RequirementFlag.out_of_sequence_detection
        target = Name(f"{service}@{host}", NameType.hostbased_service)
        return SecurityContext(name=target, creds=mine, flags=flags, usage="initiate")

    return GssContext(make)


def _name(keytab: Keytab) -> Any:
    from gssapi import Name, NameType

    return None if keytab.principal is None else Name(keytab.principal, NameType.kerberos_principal)


def _call(call: Callable[[], T]) -> T:
    """Return the result of a call of the Kerberos library. Raises `SecurityFailed`."""
    from gssapi.raw import GSSError

    try:
        return call()
    except GSSError as failure:
        raise SecurityFailed(f"Kerberos says: {failure.gen_message()}") from failure
