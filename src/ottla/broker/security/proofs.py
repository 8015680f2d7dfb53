"""The interface (port) for the verification of tokens and tickets. `ottla.net` implements it with files, networks and libraries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Never, Protocol

from ottla.errors import SettingError

if TYPE_CHECKING:
    from ottla.sasl.bearer import BearerRules
    from ottla.sasl.gssapi import SecurityContext
    from ottla.sasl.oauthbearer import Validate


@dataclass(frozen=True, slots=True)
class KeySource:
    """The URL of an issuer's keys, their refresh interval, and the backoff after a failure, in ms."""

    url: str
    refresh_ms: int
    backoff_ms: int
    backoff_max_ms: int


class Proofs(Protocol):
    """The verifiers of signed tokens and Kerberos tickets.

    Their methods raise `SettingError`, whose message has the setting to change or the package to install.
    """

    def signed_tokens(self, rules: BearerRules, source: KeySource) -> Validate:
        """Return the validator of signed tokens for these rules and keys. Calls with the same source share its keys."""

    def kerberos(self, keytab: str, principal: str, setting: str) -> Callable[[], SecurityContext]:
        """Return the factory of server-side security contexts; `setting` is the name of the setting with the keytab."""


class NoProofs:
    """The verifiers of a broker without files, networks and libraries: they support no signed tokens and no Kerberos."""

    def signed_tokens(self, rules: BearerRules, source: KeySource) -> Never:
        raise SettingError("Signed tokens cannot be checked here: leave OAUTHBEARER out of sasl.enabled.mechanisms.")

    def kerberos(self, keytab: str, principal: str, setting: str) -> Never:
        raise SettingError("This system has no Kerberos: remove GSSAPI from sasl.enabled.mechanisms.")
