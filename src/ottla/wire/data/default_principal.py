"""A principal inside a forwarded request."""

from __future__ import annotations

from ottla.wire.schema import Message, message, since


@message(valid="0", flexible="0+")
class DefaultPrincipalData(Message):
    """Type and name of the principal, and whether it logged in with a delegation token."""

    type: str = since()
    name: str = since()
    token_authenticated: bool = since()
