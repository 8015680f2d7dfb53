"""What a client refuses of its TLS settings when it is made."""

from __future__ import annotations

from typing import Any

import pytest

import ottla


def test_a_context_is_one_of_the_standard_librarys() -> None:
    with pytest.raises(ottla.SettingError, match=r"ssl_context must be an ssl\.SSLContext, not a str"):
        ottla.Admin("127.0.0.1:1", security_protocol="SSL", ssl_context="x")


@pytest.mark.parametrize("given", [{"ssl_keystore_location": "/nowhere"}, {"ssl_truststore_location": "/nowhere"}])
def test_a_file_that_is_not_there_is_told_when_the_client_is_made(given: dict[str, Any]) -> None:
    with pytest.raises(ottla.SettingError, match="=/nowhere cannot be read: No such file or directory"):
        ottla.Admin("127.0.0.1:1", security_protocol="SSL", **given)


@pytest.mark.parametrize(
    "name", ["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "TLS_RSA_WITH_AES_256_GCM_SHA384", "ECDHE-RSA-AES128-GCM-SHA256"]
)
def test_ciphers_have_javas_names_or_openssls(name: str) -> None:
    ottla.Admin("127.0.0.1:1", security_protocol="SSL", ssl_cipher_suites=f"{name},TLS_AES_128_GCM_SHA256").close()
    with pytest.raises(
        ottla.SettingError, match="ssl_cipher_suites=TLS_NO_WITH_SUCH has no cipher suite that this system supports"
    ):
        ottla.Admin("127.0.0.1:1", security_protocol="SSL", ssl_cipher_suites="TLS_NO_WITH_SUCH")
