"""The verification of signed tokens (RFC 7515) with the available keys and rules. It needs PyJWT, the extra `oauth`."""

from __future__ import annotations

from typing import Final

from ottla.errors import SettingError
from ottla.net.security.jwks import Keys
from ottla.sasl.bearer import BearerRules, split_token
from ottla.sasl.oauthbearer import BadToken, BearerToken

MISSING: Final = "OAUTHBEARER with signed tokens needs PyJWT and cryptography: pip install 'ottla[oauth]'."
MOST_TRIED: Final = 8
"""The most keys that are tried for a token that names no key."""


def check_installed() -> None:
    """Raise `SettingError` if the libraries for signatures are not installed."""
    try:
        import cryptography
        import jwt
    except ImportError:
        raise SettingError(MISSING) from None
    assert jwt
    assert cryptography


class SignedTokens:
    """A validator of JSON web tokens. It requires a signature by a known key and an algorithm of this key, and checks the
    claims.
    """

    def __init__(self, rules: BearerRules, keys: Keys) -> None:
        self._rules = rules
        self._keys = keys

    def validate(self, token: str, wall_ms: int) -> BearerToken | BadToken:
        try:
            parts = split_token(token)
            algorithm, key_id = parts.header.get("alg"), parts.header.get("kid")
            if not isinstance(algorithm, str) or not isinstance(key_id, str | None):
                raise ValueError("its header has no algorithm, or a key id that is not a string")
            if not self._is_signed(token, algorithm, key_id):
                raise ValueError("none of the known keys has signed it")
        except ValueError as refused:
            return BadToken(str(refused))
        return self._rules.judge(parts.claims, wall_ms)

    def _is_signed(self, token: str, algorithm: str, key_id: str | None) -> bool:
        """Return whether a known key has signed the token, by an `algorithm` that belongs to the key."""
        from jwt import PyJWS
        from jwt.exceptions import PyJWTError

        for key in self._keys.find(key_id, algorithm)[:MOST_TRIED]:
            try:
                PyJWS().decode(token, key.public, algorithms=[algorithm])
            except PyJWTError:
                continue
            return True
        return False
