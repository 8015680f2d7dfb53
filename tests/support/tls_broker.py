"""A broker with TLS listeners, and certificates made on the fly."""

from __future__ import annotations

import socket
import ssl
from contextlib import ExitStack
from pathlib import Path

import trustme

from bench.apache_kafka import free_port
from ottla.testing import BrokerProcess

HOST = "127.0.0.1"
LISTENERS = {"SSL": "SSL", "MUTUAL": "SSL", "ASKED": "SSL", "OLDER": "SSL"}


class TlsBroker:
    """Ottla with a plaintext listener and those of `LISTENERS`, with the key store of each and what to trust."""

    def __init__(self, home: Path) -> None:
        self.authority = trustme.CA()
        self.trusted, self.client = home / "authority.pem", home / "client.pem"
        self.authority.cert_pem.write_to_path(str(self.trusted))
        issued = self.authority.issue_cert("client.example", common_name="client", organization_name="Ex, ample")
        issued.private_key_and_cert_chain_pem.write_to_path(str(self.client))
        self.store = home / "server.pem"
        self.renew()
        self.ports = {name: free_port() for name in LISTENERS}
        listen = [("--listen", f"{HOST}:{port},name={name},security={LISTENERS[name]}") for name, port in self.ports.items()]
        self.process = BrokerProcess(
            home / "data",
            {
                "ssl.keystore.location": self.store,
                "ssl.truststore.location": self.trusted,
                "listener.name.mutual.ssl.client.auth": "required",
                "listener.name.asked.ssl.client.auth": "requested",
                "listener.name.older.ssl.enabled.protocols": "TLSv1.2",
                "listener.name.older.ssl.cipher.suites": "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
            },
            arguments=[word for pair in listen for word in pair],
        )

    def renew(self) -> str:
        """Put a new certificate in the key store, at one go. Returns the name that it is for beside the host."""
        issued = self.authority.issue_cert(HOST, "localhost")
        fresh = self.store.with_suffix(".new")
        issued.private_key_and_cert_chain_pem.write_to_path(str(fresh))
        fresh.replace(self.store)
        return issued.cert_chain_pems[0].bytes().decode()

    def address(self, listener: str) -> str:
        return f"{HOST}:{self.ports[listener]}"

    def trusting(self, *, shows: bool = False) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.trusted))
        if shows:
            context.load_cert_chain(self.client)
        return context

    def connect(self, listener: str, context: ssl.SSLContext | None = None) -> ssl.SSLSocket:
        """Raises ssl.SSLError."""
        plain = socket.create_connection((HOST, self.ports[listener]), timeout=60)
        with ExitStack() as held:
            held.callback(plain.close)
            secure = (context or self.trusting()).wrap_socket(plain, server_hostname=HOST)
            held.pop_all()
        return secure

    def shown(self, listener: str = "SSL") -> str:
        """The certificate that a new connection is shown, as PEM."""
        with self.connect(listener) as secure:
            der = secure.getpeercert(binary_form=True)
        assert der is not None
        return ssl.DER_cert_to_PEM_cert(der)
