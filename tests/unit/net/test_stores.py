"""Keys and certificates of key stores and trust stores, and the one sentence about each that cannot be used."""

from __future__ import annotations

import ssl
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)

from ottla.errors import SettingError
from ottla.net.security.key_stores import load_key, load_trust

authority = trustme.CA()
issued = authority.issue_cert("localhost")
KEY, CHAIN = issued.private_key_pem.bytes(), b"".join(blob.bytes() for blob in issued.cert_chain_pems)
TRUSTED = authority.cert_pem.bytes()
LOADED = load_pem_private_key(KEY, None)


def _pkcs12(password: bytes = b"pass") -> bytes:
    certificate, *others = x509.load_pem_x509_certificates(CHAIN)
    return pkcs12.serialize_key_and_certificates(
        None,
        LOADED,  # type: ignore[arg-type]  # of the kinds that this takes
        certificate,
        others,
        BestAvailableEncryption(password),
    )


def _encrypted(password: bytes) -> bytes:
    return LOADED.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(password))


def _server() -> ssl.SSLContext:
    return ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)


def shakes_hands(server: ssl.SSLContext, client: ssl.SSLContext) -> bool:
    """Whether both come to terms, in memory."""
    pipes = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [server.wrap_bio(*pipes, server_side=True), client.wrap_bio(*pipes[::-1], server_hostname="localhost")]
    for _ in range(10):
        for end in list(ends):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
            ends.remove(end)
    return not ends


def trusting() -> ssl.SSLContext:
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    assert load_trust(client, {"ssl.truststore.certificates": TRUSTED.decode()})
    return client


@pytest.fixture
def written(tmp_path: Path) -> Callable[[str, bytes], str]:
    def write(name: str, content: bytes) -> str:
        path = tmp_path / name
        path.write_bytes(content)
        return str(path)

    return write


def test_a_key_store_is_a_pem_file_with_key_and_certificates_in_any_order(written: Callable[[str, bytes], str]) -> None:
    for name, content in (("key-first.pem", KEY + CHAIN), ("key-last.pem", b"some text\n" + CHAIN + KEY)):
        server = _server()
        assert load_key(server, {"ssl.keystore.location": written(name, content), "ssl.keystore.type": "PEM"})
        assert shakes_hands(server, trusting())


def test_key_and_certificates_can_be_text_in_one_line_as_properties_files_have_it() -> None:
    server = _server()
    for line_break in (" ", "\\n"):
        key, chain, trusted = (pem.decode().replace("\n", line_break) for pem in (KEY, CHAIN, TRUSTED))
        assert load_key(server, {"ssl.keystore.key": key, "ssl.keystore.certificate.chain": chain})
        client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        assert load_trust(client, {"ssl.truststore.certificates": trusted})
        assert shakes_hands(server, client)


@pytest.mark.parametrize("kind", ["PKCS12", "JKS", None])
def test_a_key_store_of_pkcs12_is_opened_with_its_password(kind: str | None, written: Callable[[str, bytes], str]) -> None:
    server = _server()
    given = {"ssl.keystore.location": written("server.p12", _pkcs12()), "ssl.keystore.type": kind, "ssl.keystore.password": "pass"}
    assert load_key(server, given)
    assert shakes_hands(server, trusting())


def test_a_trust_store_is_pem_or_pkcs12(written: Callable[[str, bytes], str]) -> None:
    server = _server()
    load_key(server, {"ssl.keystore.key": KEY.decode(), "ssl.keystore.certificate.chain": CHAIN.decode()})
    entry = pkcs12.PKCS12Certificate(x509.load_pem_x509_certificate(TRUSTED), b"authority")
    store = pkcs12.serialize_key_and_certificates(None, None, None, [entry], BestAvailableEncryption(b"pass"))
    for name, content in (("trust.pem", TRUSTED), ("trust.p12", store)):
        client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        assert load_trust(client, {"ssl.truststore.location": written(name, content), "ssl.truststore.password": "pass"})
        assert shakes_hands(server, client)


def test_an_encrypted_key_is_opened_with_the_keys_password(written: Callable[[str, bytes], str]) -> None:
    server = _server()
    assert load_key(server, {"ssl.keystore.location": written("s.pem", _encrypted(b"pass") + CHAIN), "ssl.key.password": "pass"})
    assert shakes_hands(server, trusting())


def test_nothing_given_is_nothing_loaded() -> None:
    assert not load_key(_server(), {"ssl.keystore.location": None, "ssl.keystore.password": "pass"})
    assert not load_trust(_server(), {})


OTHER_KEY = authority.issue_cert("other").private_key_pem.bytes()
REFUSED = {
    "no file": (None, {}, "cannot be read: No such file or directory; name a readable file."),
    "Java's own type": (b"\xfe\xed\xfe\xed\x00\x00\x00\x02", {}, "has Java's type JKS, .* keytool -importkeystore .*PKCS12$"),
    "another key": (OTHER_KEY + CHAIN, {}, "a certificate that does not match its private key"),
    "no key": (CHAIN, {}, "has no private key"),
    "no certificate": (KEY, {}, "has no certificate"),
    "an encrypted key": (_encrypted(b"pass") + CHAIN, {}, "ssl.key.password is missing, and the key is encrypted"),
    "a wrong password": (_encrypted(b"pass") + CHAIN, {"ssl.key.password": "wrong"}, "ssl.key.password is not the key's password"),
    "a wrong password of a store": (_pkcs12(), {"ssl.keystore.password": "wrong"}, "with ssl.keystore.password: set its password"),
    "no password of a store": (_pkcs12(), {}, "cannot be opened as PKCS#12 with ssl.keystore.password"),
    "neither": (b"nothing that anybody knows", {}, "cannot be opened as PKCS#12"),
    "another type": (KEY + CHAIN, {"ssl.keystore.type": "PKCS12"}, "is PEM, and ssl.keystore.type is PKCS12"),
    "no type": (KEY + CHAIN, {"ssl.keystore.type": "DER"}, "ssl.keystore.type must be PEM or PKCS12, not DER"),
    "text beside a file": (KEY + CHAIN, {"ssl.keystore.key": "x"}, "ssl.keystore.location conflicts with"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_key_store_that_cannot_be_used_is_named_by_one_sentence(case: str, written: Callable[[str, bytes], str]) -> None:
    content, more, sentence = REFUSED[case]
    path = "/nowhere/server.pem" if content is None else written("server.pem", content)
    with pytest.raises(SettingError, match=sentence) as refused:
        load_key(_server(), {"ssl.keystore.location": path, **more})
    assert "\n" not in str(refused.value)
    assert not {"pass", "wrong"} & set(str(refused.value).split())


def test_half_of_key_and_certificates_as_text_is_refused() -> None:
    with pytest.raises(SettingError, match=r"^ssl\.keystore\.key is missing: set the key and its certificates together"):
        load_key(_server(), {"ssl.keystore.certificate.chain": CHAIN.decode()})


def test_sentences_spell_settings_as_they_were_given() -> None:
    def spell(name: str) -> str:
        return name.replace(".", "_")

    with pytest.raises(SettingError, match=r"^ssl_truststore_location=/nowhere cannot be read"):
        load_trust(_server(), {"ssl.truststore.location": "/nowhere"}, spell)
    with pytest.raises(SettingError, match=r"^ssl_truststore_certificates has no certificate"):
        load_trust(_server(), {"ssl.truststore.certificates": "none"}, spell)


def test_pkcs12_without_what_reads_it_is_one_sentence(
    written: Callable[[str, bytes], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith("cryptography")]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(SettingError, match=r"which needs cryptography: pip install 'ottla\[pkcs12\]', or use PEM"):
        load_key(_server(), {"ssl.keystore.location": written("s.p12", _pkcs12())})


def test_a_key_without_encryption_is_not_left_in_the_file_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    plain = LOADED.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    load_key(_server(), {"ssl.keystore.key": plain, "ssl.keystore.certificate.chain": CHAIN.decode()})
    assert not list(tmp_path.iterdir())
