"""An admin client's requests about delegation tokens (KIP-48, KIP-373). The module sends nothing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ottla.client.arguments import names, several, short_repr, text, whole
from ottla.client.errors import raise_for
from ottla.errors import SettingError
from ottla.wire.api.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse
from ottla.wire.api.describe_delegation_token import DescribeDelegationTokenRequest, DescribeDelegationTokenResponse
from ottla.wire.api.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
from ottla.wire.api.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse
from ottla.wire.errors import DELEGATION_TOKEN_AUTHORIZATION_FAILED

DENIED = "This user may not create tokens of that owner: request an ACL that allows CREATE_TOKENS on the user."
BROKER_DEFAULT_MS = -1
"""The lifetime or renewal of a token that the broker's settings give."""
AT_ONCE_MS = -1
"""The period after which a token expires that ends now."""


@dataclass(frozen=True, slots=True)
class TokenDescription:
    """A delegation token. Principals are like "User:alice"; times are in ms since 1970.

    A client logs in as the owner by SCRAM with the token's id as user name and the HMAC, in base64, as password. The HMAC is a
    secret, which `repr` leaves out. `requester` is empty before Kafka 3.3.
    """

    token_id: str
    owner: str
    requester: str
    issue_ms: int
    expiry_ms: int
    max_ms: int
    renewers: tuple[str, ...]
    hmac: bytes = field(repr=False)


def create_token_request(owner: str | None, renewers: Iterable[str], max_lifetime_ms: int) -> CreateDelegationTokenRequest:
    """Build the request. Raises `SettingError` for a principal that is not like "User:alice"."""
    kind, name = ("", "") if owner is None else principal(owner)  # null travels in no version before 3
    renewer = CreateDelegationTokenRequest.CreatableRenewers
    wanted = (principal(each) for each in several("renewers", renewers))
    return CreateDelegationTokenRequest(
        owner_principal_type=kind,
        owner_principal_name=name,
        renewers=[renewer(principal_type=kind, principal_name=name) for kind, name in wanted],
        max_lifetime_ms=whole("max_lifetime_ms", max_lifetime_ms, BROKER_DEFAULT_MS),
    )


def principal(given: str) -> tuple[str, str]:
    """Return the type and the name of a principal. Raises `SettingError`."""
    kind, colon, name = text("A principal", given).partition(":")
    if not (kind and colon and name):
        raise SettingError(f"{given!r} is not a principal: write its type and name, such as User:alice.")
    return kind, name


def read_created(answer: CreateDelegationTokenResponse, renewers: Iterable[str]) -> TokenDescription:
    """Return the new token, to which the broker has given these renewers. Raises `BrokerError`."""
    denied = answer.error_code == DELEGATION_TOKEN_AUTHORIZATION_FAILED
    raise_for(answer.error_code, "Creating a delegation token", DENIED if denied else None)
    return TokenDescription(
        answer.token_id,
        _principal_text(answer.principal_type, answer.principal_name),
        _principal_text(answer.token_requester_principal_type, answer.token_requester_principal_name),
        answer.issue_timestamp_ms,
        answer.expiry_timestamp_ms,
        answer.max_timestamp_ms,
        tuple(renewers),
        bytes(answer.hmac),
    )


def describe_tokens_request(owners: Iterable[str]) -> DescribeDelegationTokenRequest:
    """Build the request for the tokens of `owners`, or of all if there are none. Raises `SettingError`."""
    owner = DescribeDelegationTokenRequest.DescribeDelegationTokenOwner
    wanted = [owner(principal_type=kind, principal_name=name) for kind, name in map(principal, names("An owner", owners))]
    return DescribeDelegationTokenRequest(owners=wanted or None)


def read_tokens(answer: DescribeDelegationTokenResponse) -> list[TokenDescription]:
    """Return the tokens, the newest last. Raises `BrokerError`."""
    raise_for(answer.error_code, "Describing delegation tokens")
    tokens = [
        TokenDescription(
            each.token_id,
            _principal_text(each.principal_type, each.principal_name),
            _principal_text(each.token_requester_principal_type, each.token_requester_principal_name),
            each.issue_timestamp,
            each.expiry_timestamp,
            each.max_timestamp,
            tuple(_principal_text(renewer.principal_type, renewer.principal_name) for renewer in each.renewers),
            bytes(each.hmac),
        )
        for each in answer.tokens
    ]
    return sorted(tokens, key=lambda token: (token.issue_ms, token.token_id))


def _principal_text(kind: str, name: str) -> str:
    return f"{kind}:{name}" if name else ""


def renew_token_request(hmac: bytes, period_ms: int) -> RenewDelegationTokenRequest:
    return RenewDelegationTokenRequest(hmac=_secret(hmac), renew_period_ms=whole("period_ms", period_ms, BROKER_DEFAULT_MS))


def expire_token_request(hmac: bytes, period_ms: int) -> ExpireDelegationTokenRequest:
    return ExpireDelegationTokenRequest(hmac=_secret(hmac), expiry_time_period_ms=whole("period_ms", period_ms, AT_ONCE_MS))


def _secret(hmac: bytes) -> bytes:
    if not isinstance(hmac, bytes):
        raise TypeError(f"The HMAC of a token is bytes, not {short_repr(hmac) if hmac is None else type(hmac).__name__}.")
    return hmac


def read_expiry(answer: RenewDelegationTokenResponse | ExpireDelegationTokenResponse) -> int:
    """Return the time at which the token expires, in ms since 1970. Raises `BrokerError`."""
    raise_for(answer.error_code, "Changing the expiry of a delegation token")
    return answer.expiry_timestamp_ms
