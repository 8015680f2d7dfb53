"""The TLS versions and cipher suites that a context allows, by Kafka's names. Files and certificates are unknown here."""

from __future__ import annotations

import ssl
from collections.abc import Sequence

from ottla.errors import SettingError
from ottla.net.security.key_stores import Spell

VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
NEWEST_SUITES = {"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"}
"""The cipher suites of TLS 1.3. Python cannot restrict them, so the operating system decides which are offered."""


def narrow(context: ssl.SSLContext, versions: Sequence[ssl.TLSVersion], suites: Sequence[str], spell: Spell = str) -> None:
    """Allow only these TLS versions and cipher suites. Without `suites`, the system's choice stays. Raises `SettingError`."""
    newest, older = [each for each in suites if each in NEWEST_SUITES], [each for each in suites if each not in NEWEST_SUITES]
    allowed = [*versions]
    if suites and not newest:
        allowed = [each for each in allowed if each < ssl.TLSVersion.TLSv1_3]
    if suites and not older:
        allowed = [each for each in allowed if each is ssl.TLSVersion.TLSv1_3]
    if newest and set(newest) != NEWEST_SUITES and ssl.TLSVersion.TLSv1_3 in allowed:
        missing = ", ".join(sorted(NEWEST_SUITES.difference(newest)))
        raise SettingError(f"{spell('ssl.cipher.suites')} must name all suites of TLS 1.3 or none of them: add {missing}.")
    if not allowed:
        names = f"{spell('ssl.enabled.protocols')}, {spell('ssl.protocol')} and {spell('ssl.cipher.suites')}"
        raise SettingError(f"{names} exclude every version of TLS: allow TLSv1.3.")
    context.minimum_version, context.maximum_version = min(allowed), max(allowed)
    if older:
        try:
            context.set_ciphers(":".join(map(openssl_name, older)))
        except ssl.SSLError:
            raise SettingError(f"{spell('ssl.cipher.suites')} names none that is known here: {', '.join(older)}.") from None


def openssl_name(suite: str) -> str:
    """Return OpenSSL's name of a TLS 1.2 cipher suite from its IANA name. Return any other name unchanged."""
    if not suite.startswith("TLS_"):
        return suite
    exchange, _, cipher = suite.removeprefix("TLS_").partition("_WITH_")
    cipher = cipher.replace("AES_", "AES").replace("_CBC_", "_").replace("CHACHA20_POLY1305_SHA256", "CHACHA20_POLY1305")
    return "-".join([*([] if exchange == "RSA" else exchange.split("_")), *cipher.split("_")])
