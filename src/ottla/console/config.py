"""The settings of a console."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ottla.client.settings.clients import AdminSettings, parse
from ottla.client.settings.security import OAUTHBEARER, PLAIN, SASL_PLAINTEXT, SASL_SSL, SCRAM_256, SCRAM_512
from ottla.errors import SettingError
from ottla.share.in_flight_rows import GroupInFlight, InFlightQuery

LOGINS = (SCRAM_256, SCRAM_512, PLAIN, OAUTHBEARER)
"""The mechanisms of the login page."""
CREDENTIALS = frozenset(
    {
        "sasl_username",
        "sasl_password",
        "sasl_jaas_config",
        "sasl_oauthbearer_token_callback",
        "sasl_oauthbearer_token_endpoint_url",
        "sasl_kerberos_service_name",
    }
)
"""The settings by which a client logs in. A console that has none of them has a login page, if its cluster has logins."""


class LocalBroker(Protocol):
    """The broker in whose process a console runs, as far as no request of clients returns what it knows."""

    @property
    def node_id(self) -> int: ...

    async def read_in_flight(self, queries: Sequence[InFlightQuery]) -> Mapping[str, GroupInFlight]:
        """Return the records in flight of groups, in the partitions that this broker leads. Raises `KafkaError`."""
        ...


@dataclass(frozen=True)
class ConsoleConfig:
    """The settings of a console. `client` are keyword arguments of its clients, the bootstrap servers among them.

    `schema_registry` is the URL of a schema registry, empty without one. A `read_only` console refuses every change. `local_broker`
    is None for a console outside a broker's process.
    """

    client: Mapping[str, Any] = field(repr=False)
    read_only: bool = False
    schema_registry: str = field(default="", repr=False)
    local_broker: LocalBroker | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Raise `SettingError` for settings that no client takes."""
        if not self.needs_login:
            parse(AdminSettings, dict(self.client))

    @property
    def needs_login(self) -> bool:
        """Return whether users log in on a page: the cluster has logins, and the settings have no credentials."""
        return self.client.get("security_protocol") in (SASL_PLAINTEXT, SASL_SSL) and not CREDENTIALS & self.client.keys()

    def client_of(self, mechanism: str, name: str, password: str) -> dict[str, Any]:
        """Return the keyword arguments of the clients of a user, or for OAUTHBEARER of a token. Raises `SettingError`."""
        if mechanism not in LOGINS:
            raise SettingError(f"{mechanism!r} is not a mechanism of this page: choose one of {', '.join(LOGINS)}.")
        settings = {**self.client, "sasl_mechanism": mechanism}
        if mechanism == OAUTHBEARER:
            if not password:
                raise SettingError("The token is missing: paste the one that your identity provider has issued.")
            return {**settings, "sasl_oauthbearer_token_callback": lambda: password}
        if not (name and password):
            raise SettingError("The name or the password is missing: give both.")
        return {**settings, "sasl_username": name, "sasl_password": password}
