"""A principal inside a forwarded request."""

from __future__ import annotations

from ottla.wire.schema import Message, since


class DefaultPrincipalData(Message, valid="0", flexible="0+"):
    """An encoded principal: its type and name, and whether the client logged in with a delegation token."""

    type: str = since()
    name: str = since()
    token_authenticated: bool = since()
