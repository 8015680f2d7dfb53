"""What proves tokens and tickets, and needs files, networks and libraries beyond the core: a port, which `ottla.net` implements."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Never, Protocol

from ottla.errors import SettingError
from ottla.sasl.bearer import BearerRules
from ottla.sasl.gssapi import SecurityContext
from ottla.sasl.oauthbearer import Validate


@dataclass(frozen=True, slots=True)
class KeySource:
    """Where the keys of an issuer of tokens are, how often they are fetched, and how soon again if that fails."""

    url: str
    refresh_ms: int
    backoff_ms: int
    backoff_max_ms: int


class Proofs(Protocol):
    """Both raise `SettingError` where something is missing, in a sentence that names the setting or what to install."""

    def signed_tokens(self, rules: BearerRules, source: KeySource) -> Validate:
        """What judges tokens by these rules and keys. Asked again for the same source it has the same keys."""

    def kerberos(self, keytab: str, principal: str, setting: str) -> Callable[[], SecurityContext]:
        """What makes the broker's side of a context; `setting` is the one that named the keytab."""


class NoProofs:
    """Where there are no files, networks and libraries."""

    def signed_tokens(self, rules: BearerRules, source: KeySource) -> Never:
        raise SettingError("Signed tokens cannot be checked here: leave OAUTHBEARER out of sasl.enabled.mechanisms.")

    def kerberos(self, keytab: str, principal: str, setting: str) -> Never:
        raise SettingError("This system has no Kerberos: remove GSSAPI from sasl.enabled.mechanisms.")
