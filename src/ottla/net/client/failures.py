"""The errors of clients that cannot connect, with uniform messages."""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Iterable

from ottla.client.errors import AuthenticationFailed, BrokerError, ConnectionFailed, broker_error
from ottla.wire.errors import REBOOTSTRAP_REQUIRED

_OLD = "Brokers before Kafka 0.10 have no ApiVersions: set the release, as with api_version='0.9.0'."
_TLS = "A listener with TLS needs security_protocol=SSL or SASL_SSL."
PERHAPS_SASL = " A listener with SASL needs security_protocol=SASL_PLAINTEXT or SASL_SSL."
EXPIRED, NOT_YET, OTHER_HOST, OTHER_ADDRESS = 10, 9, 62, 64
"""The codes of X.509 verification errors in OpenSSL."""


def no_connection(where: str, error: OSError) -> ConnectionFailed:
    """Return the exception for a failed connection to `where` (HOST:PORT), with the system's text for the error's `errno`."""
    code = error.errno or 0
    reason = os.strerror(code) if code > 0 else error.strerror or error  # below 0: name resolution failed
    return ConnectionFailed(f"No connection to {where}: {reason}.")


def none_reached(bootstrap_servers: object, failures: Iterable[str], *, is_bootstrapped: bool = True) -> ConnectionFailed:
    """Return the exception for the case that no broker could be reached.

    `failures` has one sentence for each broker that was tried. Without `is_bootstrapped`, bootstrap servers were not tried.
    """
    tried = " ".join(failures)
    if not is_bootstrapped:
        return ConnectionFailed(
            "None of the known brokers could be reached, and metadata_recovery_strategy=none: start one of them, or restart the "
            f"client, which begins at bootstrap_servers. {tried}"
        )
    return ConnectionFailed(
        f"None of bootstrap_servers={bootstrap_servers} could be reached: start a broker there, or change "
        f"bootstrap_servers. {tried}"
    )


def other_broker(where: str, node_id: int, cluster_id: str | None, *, recovers: bool) -> ConnectionFailed | BrokerError:
    """Return the exception for a broker that is not the one that the metadata names for its address (KIP-1242)."""
    if recovers:
        return ConnectionFailed(f"{where} is not broker {node_id} of cluster {cluster_id} any more: the client bootstraps again.")
    return broker_error(
        REBOOTSTRAP_REQUIRED,
        f"{where} is not broker {node_id} of cluster {cluster_id} any more, and metadata_recovery_strategy=none",
    )


def must_rebootstrap(bootstrap_servers: object, *, recovers: bool) -> ConnectionFailed | BrokerError:
    """Return the exception for a broker that answered REBOOTSTRAP_REQUIRED to a metadata request (KIP-1102)."""
    if recovers:
        return ConnectionFailed(f"The brokers ask the client to bootstrap again from bootstrap_servers={bootstrap_servers}.")
    return broker_error(
        REBOOTSTRAP_REQUIRED, "The brokers ask the client to bootstrap again, but metadata_recovery_strategy=none: restart it"
    )


def perhaps_old(*, is_secure: bool) -> str:
    """Return a sentence with the likely reason why a broker does not answer ApiVersions."""
    return _OLD if is_secure else f"{_OLD} {_TLS}"


def ended_early(where: str) -> ConnectionFailed:
    """Return the exception for a connection that the broker closed during the TLS handshake."""
    return ConnectionFailed(
        f"No connection to {where}: it was closed during the TLS handshake; check that the broker is up and the listener has TLS."
    )


def not_secured(where: str, error: ssl.SSLError) -> AuthenticationFailed | ConnectionFailed:
    """Return the exception for an error of the TLS handshake."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return AuthenticationFailed(_not_trusted(where, error))
    reason = (error.reason or str(error)).upper()
    why = re.sub("^(sslv3|tlsv1[0-9]*) ", "", reason.replace("_", " ").lower())
    if "WRONG_VERSION_NUMBER" in reason or "RECORD_LAYER_FAILURE" in reason:
        return AuthenticationFailed(
            f"{where} does not speak TLS: set security_protocol to PLAINTEXT or SASL_PLAINTEXT, or name a listener with TLS."
        )
    if "PROTOCOL_VERSION" in reason or "NO_PROTOCOLS" in reason:
        return AuthenticationFailed(f"{where} supports no TLS version of ssl_enabled_protocols ({why}): add another one.")
    if "ALERT" in reason:
        return AuthenticationFailed(
            f"{where} ended the TLS handshake ({why}): it asks for a certificate that it trusts, from ssl_keystore_location, "
            "or ciphers that ssl_cipher_suites leaves out."
        )
    return ConnectionFailed(f"The connection to {where} broke: TLS failed ({why}).")


def _not_trusted(where: str, error: ssl.SSLCertVerificationError) -> str:
    why = error.verify_message
    if error.verify_code in (OTHER_HOST, OTHER_ADDRESS):
        return (
            f"The certificate of {where} is for another host ({why}): let bootstrap_servers and the broker's advertised.listeners "
            'use a name that it is for, or set ssl_endpoint_identification_algorithm="" to accept any.'
        )
    if error.verify_code in (EXPIRED, NOT_YET):
        return f"The certificate of {where} is expired or not yet valid ({why}): renew it there, and check the clock here."
    return f"The certificate of {where} is not trusted ({why}): add its authority's certificate to ssl_truststore_location."
