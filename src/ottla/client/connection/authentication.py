"""One login over one connection, as a state machine: the SASL requests to send and the meaning of the answers (KIP-43, 152, 368).

The module uses messages and the mechanisms of `ottla.sasl`. It uses no sockets, clocks or other requests.
"""

from __future__ import annotations

from ottla.client.errors import AuthenticationFailed, broker_error
from ottla.sasl.mechanism import ClientMechanism, SaslFailed
from ottla.wire.api.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ottla.wire.api.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from ottla.wire.errors import ILLEGAL_SASL_STATE, SASL_AUTHENTICATION_FAILED, UNSUPPORTED_SASL_MECHANISM


class SaslExchange:
    """The client's side of one SASL login. `where` is the broker as HOST:PORT, for messages.

    `session_lifetime_ms` is the broker's latest limit on the lifetime of the login; 0 means no limit.
    """

    def __init__(self, name: str, mechanism: ClientMechanism, where: str) -> None:
        self.session_lifetime_ms = 0
        self._name, self._mechanism, self._where = name, mechanism, where

    def handshake(self) -> SaslHandshakeRequest:
        return SaslHandshakeRequest(mechanism=self._name)

    def receive_handshake(self, answer: SaslHandshakeResponse) -> None:
        """Check the answer to the handshake. Raises `AuthenticationFailed`, or another `KafkaError`."""
        if answer.error_code == UNSUPPORTED_SASL_MECHANISM:
            offered = ", ".join(answer.mechanisms) or "none"
            raise AuthenticationFailed(
                f"{self._where} does not accept sasl_mechanism={self._name}: choose one of {offered}.",
                answer.error_code,
            )
        if answer.error_code == ILLEGAL_SASL_STATE:
            raise AuthenticationFailed(
                f"{self._where} requires no authentication: set security_protocol to PLAINTEXT or SSL, or name another listener.",
                answer.error_code,
            )
        self._check(answer.error_code, None)

    def request(self, token: bytes = b"") -> SaslAuthenticateRequest | None:
        """Return the request with the client's answer to the broker's `token`; None when the exchange has ended.

        A call can take long. Raises `AuthenticationFailed` if the mechanism cannot continue.
        """
        try:
            answer = self._mechanism.step(token)
        except SaslFailed as error:
            raise AuthenticationFailed(f"Login at {self._where} failed: {error}", SASL_AUTHENTICATION_FAILED) from None
        return None if answer is None else SaslAuthenticateRequest(auth_bytes=answer)

    def receive_token(self, answer: SaslAuthenticateResponse) -> bytes:
        """Return the broker's token from `answer`, and store the session lifetime.

        Raises `AuthenticationFailed` if the broker refused the login, or another `KafkaError`.
        """
        self._check(answer.error_code, answer.error_message)
        self.session_lifetime_ms = answer.session_lifetime_ms
        return bytes(answer.auth_bytes)

    def _check(self, code: int, message: str | None) -> None:
        if code in (SASL_AUTHENTICATION_FAILED, ILLEGAL_SASL_STATE):
            said = (message or "the broker gives no reason").rstrip(".")
            raise AuthenticationFailed(
                f"{self._where} refused the login by {self._name} ({said}): check name, password and mechanism.", code
            )
        if code:
            raise broker_error(code, f"Login at {self._where}", message)
