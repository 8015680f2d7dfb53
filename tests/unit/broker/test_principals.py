"""Names in certificates, as Java writes them, and the users that rules make of them."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID, ObjectIdentifier

from ottla.broker.security.certificates import read_certificate
from ottla.broker.security.principals import NoRule, rules, user_of
from ottla.errors import SettingError

BEGIN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
END = datetime(2051, 1, 2, 3, 4, 5, tzinfo=UTC)


def named(*parts: x509.RelativeDistinguishedName) -> bytes:
    """A certificate of this name, as DER."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name(parts)
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, BEGIN, END)
    return builder.sign(key, hashes.SHA256()).public_bytes(Encoding.DER)


def part(*attributes: tuple[ObjectIdentifier, str]) -> x509.RelativeDistinguishedName:
    return x509.RelativeDistinguishedName([x509.NameAttribute(kind, value) for kind, value in attributes])


def test_a_name_is_written_as_in_rfc_2253_the_last_part_first() -> None:
    der = named(
        part((NameOID.COUNTRY_NAME, "CH")),
        part((NameOID.STATE_OR_PROVINCE_NAME, "Zürich")),
        part((NameOID.LOCALITY_NAME, "Wald")),
        part((NameOID.ORGANIZATION_NAME, "Ex, ample + Co")),
        part((NameOID.ORGANIZATIONAL_UNIT_NAME, " a#b ")),
        part((NameOID.DOMAIN_COMPONENT, "example")),
        part((NameOID.USER_ID, "u=1")),
        part((NameOID.COMMON_NAME, "client")),
    )
    found = read_certificate(der)
    assert found.subject == "CN=client,UID=u\\=1,DC=example,OU=\\ a\\#b\\ ,O=Ex\\, ample \\+ Co,L=Wald,ST=Zürich,C=CH"
    assert (found.not_before, found.not_after) == (BEGIN, END)


def test_attributes_without_a_short_name_are_written_as_numbers() -> None:
    subject = read_certificate(named(part((NameOID.EMAIL_ADDRESS, "a@b")), part((NameOID.COMMON_NAME, "x")))).subject
    assert subject == "CN=x,1.2.840.113549.1.9.1=#1603614062"


@pytest.mark.parametrize("cut", range(0, 200, 7))
def test_what_is_cut_off_is_no_certificate(cut: int) -> None:
    der = ssl.PEM_cert_to_DER_cert(trustme.CA().cert_pem.bytes().decode())
    with pytest.raises(ValueError, match=r"is|not"):
        read_certificate(der[:cut])


def test_times_before_2050_have_two_digits_of_the_year() -> None:
    der = ssl.PEM_cert_to_DER_cert(
        trustme.CA().issue_cert("x", not_after=BEGIN + timedelta(days=1)).cert_chain_pems[0].bytes().decode()
    )
    assert read_certificate(der).not_after == BEGIN + timedelta(days=1)


DUKE = "CN=Duke,OU=ServiceUsers,O=Org,C=US"


@pytest.mark.parametrize(
    ("text", "subject", "user"),
    [
        ("DEFAULT", DUKE, DUKE),
        ("", DUKE, DUKE),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/", DUKE, "Duke"),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L", DUKE, "duke"),
        ("RULE:^CN=(.*?),.*$/$1/U , DEFAULT", DUKE, "DUKE"),
        ("RULE:^CN=(.*?), OU=x,(.*)$/$1/,RULE:^CN=(.*?),OU=(.*?),O=(.*?),.*$/$1@$2/", DUKE, "Duke@ServiceUsers"),
        (r"RULE:^cn=(.*?),.*$/$1/L,DEFAULT", DUKE, DUKE),
        (r"RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/\$1-$1\/x/", DUKE, "$1-Duke/x"),
        ("RULE:^CN=Duke.*$/kafka/", DUKE, "kafka"),
    ],
)
def test_the_first_rule_that_fits_makes_the_user(text: str, subject: str, user: str) -> None:
    assert user_of(subject, rules(text)) == f"User:{user}"


def test_nobody_is_known_whom_no_rule_fits() -> None:
    with pytest.raises(NoRule, match="no rule"):
        user_of("CN=x", rules("RULE:^CN=y$/y/"))


@pytest.mark.parametrize("text", ["RULE:a/b", "rule:a/b/", "RULE:(/x/", "RULE:a/$1/", "DEFAULT,nonsense", "RULE:a/b/X"])
def test_rules_that_are_none_are_refused_with_a_sentence(text: str) -> None:
    with pytest.raises(SettingError, match=r"^ssl\.principal\.mapping\.rules .*[.]$"):
        rules(text)
