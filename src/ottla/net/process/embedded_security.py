"""The users and certificates of an embedded broker, and the settings with which various clients connect to it.

Certificates are made at the start, for tests. Only clients with `ca_file` trust their authority.
"""

from __future__ import annotations

import shutil
import ssl
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ottla.broker.settings import SecurityProtocol
from ottla.client.arguments import short_repr
from ottla.errors import SettingError

MECHANISM = "PLAIN"
LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"


@dataclass(frozen=True, slots=True)
class Admitted:
    """How a client connects to an embedded broker: without a user it does not log in, without a CA file it uses no TLS."""

    address: str
    protocol: str
    ca_file: str | None
    user: tuple[str, str] | None


class Gatekeeper:
    """The access control of an embedded broker.

    `users` are passwords by name, for SASL/PLAIN. With `tls`, `settings` creates certificates, which `end` removes.
    """

    def __init__(self, users: Mapping[str, str] | None, *, tls: bool) -> None:
        self._users, self._tls = _check_users(users), tls
        self._directory: Path | None = None

    @property
    def security(self) -> SecurityProtocol | None:
        """Return the security protocol, or None if the broker's settings decide."""
        if not self._users and not self._tls:
            return None
        return SecurityProtocol.find("_".join(["SASL"] * bool(self._users) + ["SSL" if self._tls else "PLAINTEXT"]))

    @property
    def ca_file(self) -> str | None:
        """Return the path of the CA certificate, or None while no certificates exist."""
        return None if self._directory is None else str(self._directory / "ca.pem")

    def settings(self, host: str) -> dict[str, str]:
        """Return the security settings of a broker at `host`. Raises `SettingError` if certificates cannot be made."""
        made: dict[str, str] = {}
        if self.security is not None and self._users:
            prefix = f"listener.name.{self.security.value.lower()}"
            known = " ".join(f"user_{name}={_quote(password)}" for name, password in self._users.items())
            made = {f"{prefix}.sasl.enabled.mechanisms": MECHANISM, f"{prefix}.plain.sasl.jaas.config": f"{LOGIN} {known};"}
        if self._tls:
            if self._directory is None:
                self._directory = Path(tempfile.mkdtemp(prefix="ottla-tls-"))
                _issue(self._directory, host)
            made |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(self._directory / "broker.pem")}
        return made

    def end(self) -> None:
        directory, self._directory = self._directory, None
        if directory is not None:
            shutil.rmtree(directory, ignore_errors=True)

    def client_settings(self, address: str, words: str, user: str | None) -> dict[str, Any]:
        """Return a client's settings; see `Broker.client_settings`."""
        if words not in WORDS:
            raise ValueError(f"There are no settings in the format of {words!r}: choose {', '.join(WORDS)}.")
        if user is not None and user not in self._users:
            raise ValueError(f"There is no user {user!r}: give users={{{user!r}: PASSWORD}} to the broker.")
        name = user or next(iter(self._users), None)
        login = None if name is None else (name, self._users[name])
        return WORDS[words](Admitted(address, (self.security or SecurityProtocol.PLAINTEXT).value, self.ca_file, login))


def _quote(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _issue(directory: Path, host: str) -> None:
    try:
        import trustme
    except ImportError:
        raise SettingError("tls=True creates certificates with trustme: install it with pip install 'ottla[testing]'.") from None
    authority = trustme.CA()
    issued = authority.issue_cert(*dict.fromkeys([host, "localhost", "127.0.0.1"]))
    authority.cert_pem.write_to_path(str(directory / "ca.pem"))
    issued.private_key_and_cert_chain_pem.write_to_path(str(directory / "broker.pem"))


def _ottla(client: Admitted) -> dict[str, Any]:
    made = {"bootstrap_servers": client.address, "security_protocol": client.protocol}
    if client.ca_file is not None:
        made["ssl_truststore_location"] = client.ca_file
    if client.user is not None:
        made |= {"sasl_mechanism": MECHANISM, "sasl_username": client.user[0], "sasl_password": client.user[1]}
    return made


def _confluent(client: Admitted) -> dict[str, Any]:
    return {name.replace("_", ".").replace("truststore", "ca"): value for name, value in _ottla(client).items()}


def _kafka_python(client: Admitted) -> dict[str, Any]:
    theirs = {
        "ssl_truststore_location": "ssl_cafile",
        "sasl_username": "sasl_plain_username",
        "sasl_password": "sasl_plain_password",
    }
    return {theirs.get(name, name): value for name, value in _ottla(client).items()}


def _aiokafka(client: Admitted) -> dict[str, Any]:
    made = _kafka_python(client)
    if (trusted := made.pop("ssl_cafile", None)) is not None:
        made["ssl_context"] = ssl.create_default_context(cafile=trusted)
    return made


def _java(client: Admitted) -> dict[str, Any]:
    made = {"bootstrap.servers": client.address, "security.protocol": client.protocol}
    if client.ca_file is not None:
        made |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": client.ca_file}
    if client.user is not None:
        name, password = map(_quote, client.user)
        made |= {"sasl.mechanism": MECHANISM, "sasl.jaas.config": f"{LOGIN} username={name} password={password};"}
    return made


def _spark(client: Admitted) -> dict[str, Any]:
    return {f"kafka.{name}": value for name, value in _java(client).items()}


WORDS: dict[str, Callable[[Admitted], dict[str, Any]]] = {
    "ottla": _ottla, "confluent": _confluent, "kafka-python": _kafka_python, "aiokafka": _aiokafka, "java": _java, "spark": _spark
}  # fmt: skip
"""The functions that make a client's settings, by the name of the client."""


def _check_users(users: Mapping[str, str] | None) -> dict[str, str]:
    """Return the users as a dict. Raises `TypeError`, and `SettingError` for a user whose login could never succeed."""
    if users is not None and not isinstance(users, Mapping):
        raise TypeError(f"users is a mapping of names to passwords, not {short_repr(users)}.")
    for name, password in (users or {}).items():
        if not isinstance(name, str) or not isinstance(password, str):
            raise TypeError(f"users is a mapping of names to passwords, and these are strings, not {short_repr((name, password))}.")
        if not name or not password:
            raise SettingError("users: a name or a password is empty: set both.")
    return dict(users or {})
