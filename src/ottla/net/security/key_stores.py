"""Keys and certificates of key stores and trust stores: PEM or PKCS#12, from files or text, loaded into an `ssl.SSLContext`.

The input is the TLS settings of a listener or a client by Kafka's names (`ssl.keystore.location`). `spell` returns a name as the
user wrote it. The first bytes of a file decide its type, because a store of a Java type can contain PKCS#12. A store in the format
JKS is refused. Listeners, connections and principals are unknown here.
"""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, TypeAlias

from ottla.errors import SettingError

Given: TypeAlias = Mapping[str, str | None]
"""Settings by Kafka's names. The values None and "" mean that a setting is not given."""
Spell: TypeAlias = Callable[[str], str]

PEM, PKCS12, JKS = "PEM", "PKCS12", "JKS"
TYPES = (PEM, PKCS12, JKS)
MOST_BYTES = 16 * 1024 * 1024
_JAVA = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
_CERTIFICATE = re.compile(rb"-----BEGIN (?:X509 |TRUSTED )?CERTIFICATE-----.+?-----END (?:X509 |TRUSTED )?CERTIFICATE-----", re.S)
_KEY = re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----.+?-----END [A-Z ]*PRIVATE KEY-----", re.S)
_HEADER = re.compile(rb"(-----BEGIN [A-Z0-9 ]+-----)\s*(.*?)\s*(-----END [A-Z0-9 ]+-----)", re.S)


class KeyAndChain(NamedTuple):
    """A private key with its certificates as PEM, the key's own certificate first.

    `password` decrypts the key. None means that the key is not encrypted.
    """

    key: bytes
    chain: bytes
    password: str | None
    source: str
    """The setting that contains the key and the certificates, followed by its value if that is a file."""


def load_key(context: ssl.SSLContext, given: Given, spell: Spell = str) -> bool:
    """Load the key and certificates of the settings `ssl.keystore.*` into `context`. Return False if no such settings are given.

    Raises `SettingError` with a message that names the setting and the file.
    """
    found = key_and_chain(given, spell)
    if found is None:
        return False
    password = found.password or ""
    try:
        with _as_file(found.key + b"\n" + found.chain) as path:
            context.load_cert_chain(path, password=lambda: password)  # OpenSSL would prompt for a missing password at the terminal
    except ssl.SSLError as error:
        raise SettingError(f"{found.source} {_why(error, found, given, spell)}") from None
    return True


def _why(error: ssl.SSLError, found: KeyAndChain, given: Given, spell: Spell) -> str:
    reason = error.reason or ""
    if "MISMATCH" in reason:
        return "has a certificate that does not match its private key: put the key's own certificate first."
    if b"ENCRYPTED" in found.key:  # OpenSSL gives no reason for a wrong password
        what = "is not the key's password" if given.get("ssl.key.password") else "is missing, and the key is encrypted"
        return f"has a private key that cannot be decrypted: {spell('ssl.key.password')} {what}."
    told = reason.replace("_", " ").lower() or "not readable"
    return f"has a key or certificate that TLS cannot use ({told}): replace it."


def load_trust(context: ssl.SSLContext, given: Given, spell: Spell = str) -> bool:
    """Trust the certificates of the settings `ssl.truststore.*`. Return False if no such settings are given.

    Raises `SettingError` with a message that names the setting and the file.
    """
    found = read_trusted(given, spell)
    if found is None:
        return False
    certificates, source = found
    try:
        context.load_verify_locations(cadata=certificates.decode("ascii", "replace"))
    except ssl.SSLError as error:
        told = (error.reason or "not readable").replace("_", " ").lower()
        raise SettingError(f"{source} has a certificate that cannot be decoded ({told}): replace it.") from None
    return True


def key_and_chain(given: Given, spell: Spell = str) -> KeyAndChain | None:
    """Return the key and certificates of the settings `ssl.keystore.*`, or None if they are not given. Raises `SettingError`."""
    location, key, chain = (given.get(f"ssl.keystore.{name}") for name in ("location", "key", "certificate.chain"))
    password = given.get("ssl.key.password")
    if key or chain:
        _check_inline(given, "keystore", spell)
        if not key or not chain:
            missing = "key" if chain else "certificate.chain"
            raise SettingError(f"{spell(f'ssl.keystore.{missing}')} is missing: set the key and its certificates together.")
        source = spell("ssl.keystore.certificate.chain")
        return KeyAndChain(_key_of(_lines(key), spell("ssl.keystore.key")), _certificates(_lines(chain), source), password, source)
    if not location:
        return None
    content, source = _read(given, "keystore", spell)
    if not _is_pem(content):
        found = _open(content, given, "keystore", spell, source)
        if not found.key:
            raise SettingError(f"{source} has no private key: add it, with its certificates.")
        return KeyAndChain(found.key, found.certificates, None, source)
    return KeyAndChain(_key_of(content, source), _certificates(content, source), password, source)


def read_trusted(given: Given, spell: Spell = str) -> tuple[bytes, str] | None:
    """Return (the certificates of the settings `ssl.truststore.*` as PEM, the setting that contains them).

    Return None if the settings are not given. Raises `SettingError`.
    """
    if text := given.get("ssl.truststore.certificates"):
        _check_inline(given, "truststore", spell)
        source = spell("ssl.truststore.certificates")
        return _certificates(_lines(text), source), source
    if not given.get("ssl.truststore.location"):
        return None
    content, source = _read(given, "truststore", spell)
    if _is_pem(content):
        return _certificates(content, source), source
    found = _open(content, given, "truststore", spell, source)
    if not found.certificates:
        raise SettingError(f"{source} has no certificate: import the trusted ones.")
    return found.certificates, source


def _check_inline(given: Given, store: str, spell: Spell) -> None:
    kind = (given.get(f"ssl.{store}.type") or PEM).upper()
    if kind != PEM:
        raise SettingError(f"{spell(f'ssl.{store}.type')} is {kind}, and certificates as text are PEM: set it to PEM.")
    if given.get(f"ssl.{store}.location"):
        raise SettingError(f"{spell(f'ssl.{store}.location')} conflicts with certificates given as text: remove one of them.")


def _lines(text: str) -> bytes:
    r"""Return PEM as several lines. Properties often have it in one line, with spaces or a literal \n for line breaks."""
    plain = text.replace("\\n", "\n").encode("ascii", "replace")
    return _HEADER.sub(lambda found: found[1] + b"\n" + b"\n".join(found[2].split()) + b"\n" + found[3] + b"\n", plain)


def _read(given: Given, store: str, spell: Spell) -> tuple[bytes, str]:
    """Return (the contents of a store's file, its name for messages). Raises `SettingError`."""
    path = given[f"ssl.{store}.location"] or ""
    source = f"{spell(f'ssl.{store}.location')}={path}"
    try:
        with Path(path).open("rb") as file:
            content = file.read(MOST_BYTES)
    except OSError as error:
        raise SettingError(f"{source} cannot be read: {error.strerror or error}; name a readable file.") from None
    if content.startswith(_JAVA):
        raise SettingError(
            f"{source} has Java's type JKS, which is not supported: convert it with keytool -importkeystore -srckeystore {path} "
            f"-destkeystore {Path(path).with_suffix('.p12')} -deststoretype PKCS12"
        )
    kind = (given.get(f"ssl.{store}.type") or "").upper()
    if kind and kind not in TYPES:
        raise SettingError(f"{spell(f'ssl.{store}.type')} must be PEM or PKCS12, not {kind}.")
    if kind and (kind == PEM) != _is_pem(content):
        what = PEM if _is_pem(content) else "not PEM"
        raise SettingError(f"{source} is {what}, and {spell(f'ssl.{store}.type')} is {kind}: change one of them.")
    return content, source


def _is_pem(content: bytes) -> bool:
    return b"-----BEGIN " in content


def _key_of(content: bytes, source: str) -> bytes:
    found = _KEY.search(content)
    if found is None:
        raise SettingError(f"{source} has no private key: add it beside its certificates, as PEM of PKCS#8.")
    return found[0]


def _certificates(content: bytes, source: str) -> bytes:
    found = _CERTIFICATE.findall(content)
    if not found:
        raise SettingError(f"{source} has no certificate: add it as PEM, between BEGIN CERTIFICATE and END CERTIFICATE.")
    return b"\n".join(found) + b"\n"


class _Contents(NamedTuple):
    key: bytes
    certificates: bytes


def _open(content: bytes, given: Given, store: str, spell: Spell, source: str) -> _Contents:
    """Return the contents of a PKCS#12 store converted to PEM. Raises `SettingError`."""
    try:
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
        from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12
    except ImportError:
        raise SettingError(
            f"{source} is a PKCS#12 store, which needs cryptography: pip install 'ottla[pkcs12]', or use PEM."
        ) from None
    password = given.get(f"ssl.{store}.password")
    try:
        found = load_pkcs12(content, password.encode() if password else None)
    except ValueError:
        word = spell(f"ssl.{store}.password")
        raise SettingError(f"{source} cannot be opened as PKCS#12 with {word}: set its password, or another file.") from None
    key = b"" if found.key is None else found.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    held = [*([found.cert] if found.cert else []), *found.additional_certs]
    return _Contents(key, b"".join(each.certificate.public_bytes(Encoding.PEM) for each in held))


@contextmanager
def _as_file(content: bytes) -> Iterator[str]:
    """Yield a path at which OpenSSL finds `content`.

    The file is in memory if the operating system can do that. Otherwise it is a temporary file that only this user can read.
    """
    if hasattr(os, "memfd_create") and os.path.isdir("/proc/self/fd"):
        descriptor = os.memfd_create("ottla-key")
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            yield f"/proc/self/fd/{descriptor}"
        return
    import tempfile

    with tempfile.NamedTemporaryFile("wb") as file:
        file.write(content)
        file.flush()
        yield file.name
