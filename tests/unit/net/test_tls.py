"""What decides the TLS of a listener, and the one sentence about each setting or file that cannot be."""

from __future__ import annotations

import datetime
import ssl
from pathlib import Path

import pytest
import trustme

from ottla.broker.settings import BrokerSettings, SettingError, SettingsInForce
from ottla.net.security.tls import ListenerTls, make_context
from ottla.net.security.tls_versions import openssl_name

authority = trustme.CA()
PAST = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "server.pem"
    authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(str(path))
    return path


def test_a_listener_has_what_is_given_for_it_alone(store: Path) -> None:
    settings = BrokerSettings.parse(
        {
            "ssl.keystore.location": str(store),
            "ssl.truststore.location": str(store),
            "ssl.client.auth": "requested",
            "listener.name.in.ssl.client.auth": "required",
            "listener.name.in.ssl.enabled.protocols": "TLSv1.3",
        }
    )
    inside, outside = make_context(settings, "IN"), make_context(settings, "OUT")
    assert (inside.verify_mode, inside.minimum_version) == (ssl.CERT_REQUIRED, ssl.TLSVersion.TLSv1_3)
    assert (outside.verify_mode, outside.minimum_version) == (ssl.CERT_OPTIONAL, ssl.TLSVersion.TLSv1_2)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (
            {"ssl.keystore.location": ""},
            "Listener IN has TLS and no certificate: set listener.name.in.ssl.keystore.location",
        ),
        ({"ssl.keystore.location": "/nowhere"}, "ssl.keystore.location=/nowhere cannot be read: No such file or directory; "),
        (
            {"listener.name.in.ssl.keystore.location": "/nowhere"},
            "listener.name.in.ssl.keystore.location=/nowhere cannot be read: ",
        ),
        ({"ssl.client.auth": "required"}, "ssl.client.auth requests client certificates on listener IN, and no authority is"),
        (
            {"ssl.enabled.protocols": "TLSv1.3", "ssl.protocol": "TLSv1.2"},
            "ssl.enabled.protocols, ssl.protocol and ssl.cipher.suites",
        ),
        ({"ssl.cipher.suites": "TLS_NO_SUCH"}, "ssl.cipher.suites names none that is known here: TLS_NO_SUCH."),
        (
            {"ssl.cipher.suites": "TLS_AES_256_GCM_SHA384"},
            "ssl.cipher.suites must name all suites of TLS 1.3 or none of them: add TLS_",
        ),
    ],
)
def test_what_cannot_be_is_one_sentence(store: Path, given: dict[str, str], sentence: str) -> None:
    with pytest.raises(SettingError) as refused:
        make_context(BrokerSettings.parse({"ssl.keystore.location": str(store)} | given), "IN")
    assert str(refused.value).startswith(sentence)
    assert str(refused.value).endswith(".")


def test_a_certificate_that_is_over_is_refused_by_its_file(tmp_path: Path) -> None:
    path = tmp_path / "old.pem"
    authority.issue_cert("localhost", not_after=PAST).private_key_and_cert_chain_pem.write_to_path(str(path))
    with pytest.raises(SettingError, match=f"^ssl.keystore.location={path} has a certificate that was valid until .*: renew it.$"):
        make_context(BrokerSettings.parse({"ssl.keystore.location": str(path)}), "IN")


@pytest.mark.parametrize(
    ("suite", "name"),
    [
        ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "ECDHE-RSA-AES256-GCM-SHA384"),
        ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305"),
        ("TLS_DHE_RSA_WITH_AES_128_CBC_SHA256", "DHE-RSA-AES128-SHA256"),
        ("TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA", "ECDHE-RSA-AES128-SHA"),
        ("TLS_RSA_WITH_AES_128_GCM_SHA256", "AES128-GCM-SHA256"),
        ("ECDHE-RSA-AES128-SHA", "ECDHE-RSA-AES128-SHA"),
    ],
)
def test_cipher_suites_are_known_by_both_names(suite: str, name: str) -> None:
    assert openssl_name(suite) == name
    assert name in {cipher["name"] for cipher in _all_ciphers()}


def _all_ciphers() -> list[dict[str, str]]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_ciphers("ALL:@SECLEVEL=0")
    return [{"name": cipher["name"]} for cipher in context.get_ciphers()]


def test_a_change_of_settings_that_cannot_be_used_is_refused_before_it_is_made(store: Path, tmp_path: Path) -> None:
    in_force = SettingsInForce(BrokerSettings.parse({"ssl.keystore.location": str(store)}))
    tls = ListenerTls("IN", in_force)
    before = tls.context
    with pytest.raises(SettingError, match=r"^listener\.name\.in\.ssl\.keystore\.location=/nowhere cannot be read"):
        in_force.check({}, {"listener.name.in.ssl.keystore.location": "/nowhere"})
    in_force.check({}, {"listener.name.out.ssl.keystore.location": "/nowhere"})
    other = tmp_path / "other.pem"
    other.write_bytes(store.read_bytes())
    wanted = {"listener.name.in.ssl.keystore.location": str(other)}
    in_force.check({}, wanted)
    assert tls.context is before
    in_force.change({}, wanted)
    assert tls.context is not before


def test_a_file_is_read_again_once_for_each_of_its_states(store: Path, caplog: pytest.LogCaptureFixture) -> None:
    tls = ListenerTls("IN", SettingsInForce(BrokerSettings.parse({"ssl.keystore.location": str(store)})))
    before = tls.context
    tls.reload_if_changed()
    assert tls.context is before
    kept = store.read_bytes()
    store.write_text("junk of another length")
    tls.reload_if_changed()
    tls.reload_if_changed()
    assert tls.context is before
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == ["listener IN keeps its previous certificates"]
    store.write_bytes(kept)
    tls.reload_if_changed()
    assert tls.context is not before
