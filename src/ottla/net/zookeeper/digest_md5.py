"""The client's side of DIGEST-MD5 (RFC 2831), ZooKeeper's mechanism for user names and passwords.

ZooKeeper uses no protection layer, and the same service and host name for every server.
"""

from __future__ import annotations

import re
from hashlib import md5
from secrets import token_hex

URI = "zookeeper/zk-sasl-md5"
_PAIR = re.compile(r'([a-z-]+)=(?:"((?:[^"\\]|\\.)*)"|([^",\s]*))')


class DigestMd5:
    """One login by DIGEST-MD5. `step` returns the answer to a challenge; for the first call, the challenge is empty."""

    def __init__(self, username: str, password: str) -> None:
        self._username = username
        self._password = password
        self._expected = ""

    def step(self, challenge: bytes) -> bytes | None:
        """Return the next answer, or None when the login is complete.

        Raises `ValueError` if the server does not prove that it has the password.
        """
        if not challenge:
            return b""
        said = {name: re.sub(r"\\(.)", r"\1", quoted) or plain for name, quoted, plain in _PAIR.findall(challenge.decode())}
        if "rspauth" in said:
            if said["rspauth"] != self._expected:
                raise ValueError("the server does not know the password")
            return None
        return self._answer(said["nonce"], said.get("realm", ""), token_hex(16))

    def _answer(self, nonce: str, realm: str, client_nonce: str) -> bytes:
        secret = md5(b":".join(map(_hash_bytes, (self._username, realm, self._password))), usedforsecurity=False).digest()
        first = _hex(secret + f":{nonce}:{client_nonce}".encode())

        def proof(verb: str) -> str:
            return _hex(f"{first}:{nonce}:00000001:{client_nonce}:auth:{_hex(f'{verb}:{URI}'.encode())}".encode())

        self._expected = proof("")
        return (
            f'charset=utf-8,username="{_quote(self._username)}",realm="{_quote(realm)}",nonce="{_quote(nonce)}",nc=00000001,'
            f'cnonce="{client_nonce}",digest-uri="{URI}",maxbuf=65536,response={proof("AUTHENTICATE")},qop=auth'
        ).encode()


def _hex(data: bytes) -> str:
    return md5(data, usedforsecurity=False).hexdigest()


def _hash_bytes(text: str) -> bytes:
    """Return the bytes of a name for hashing: in Latin-1 if possible, otherwise in UTF-8."""
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        return text.encode()


def _quote(text: str) -> str:
    return re.sub(r'(["\\])', r"\\\1", text)
