"""The addresses of HTTP servers, and the host names that their requests may have."""

from __future__ import annotations

import pytest

from ottla.errors import SettingError
from ottla.web import extra
from ottla.web.address import ExposedAddress, WebAddress
from ottla.web.guard import hosts_of


@pytest.mark.parametrize("text", ["127.0.0.1:8080", "[::1]:0", "localhost:65535", "0.0.0.0:1"])
def test_an_address_is_printed_as_it_was_written(text: str) -> None:
    assert str(WebAddress.parse(text)) == text


@pytest.mark.parametrize("text", ["", "8080", ":8080", "host:", "host:65536", "host:-1", "host:٣", "host:http", "[]:1"])
def test_text_that_is_no_address_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not an address: write HOST:PORT, such as 127\.0\.0\.1:8080\."):
        WebAddress.parse(text)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.1", "::1", "localhost"])
def test_a_loopback_address_needs_no_tls(host: str) -> None:
    address = WebAddress(host, 8080)
    assert address.is_loopback
    address.refuse_exposed(has_tls=False, is_allowed=False, option="--insecure")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org", "localhost.example.org"])
def test_an_address_that_others_reach_needs_tls_or_the_word(host: str) -> None:
    address = WebAddress(host, 8080)
    with pytest.raises(ExposedAddress, match="--tls-certificate, or write --insecure if"):
        address.refuse_exposed(has_tls=False, is_allowed=False, option="--insecure")
    address.refuse_exposed(has_tls=True, is_allowed=False, option="--insecure")
    address.refuse_exposed(has_tls=False, is_allowed=True, option="--insecure")


def test_all_interfaces_are_no_host_name() -> None:
    assert set(hosts_of(WebAddress("0.0.0.0", 1), ["console.example.org"])) == {"localhost", "console.example.org"}
    assert set(hosts_of(WebAddress("console.example.org", 1))) == {"localhost", "console.example.org"}


def test_a_missing_package_is_named_with_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    extra.require_packages("The console")
    monkeypatch.setattr(extra, "PACKAGES", ("starlette", "no_such_package"))
    with pytest.raises(SettingError, match=r"^The console needs no_such_package: pip install 'ottla\[console\]'\.$"):
        extra.require_packages("The console")
