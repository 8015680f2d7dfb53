"""default_principal: …"""

from __future__ import annotations

from ottla.wire.schema import Message, message, since


@message(valid="0", flexible="0+")
class DefaultPrincipalData(Message):
    """Data."""

    type: str = since()
    name: str = since()
    token_authenticated: bool = since()
