"""Which changes of SCRAM credentials are made, and how they stand in the registry."""

from __future__ import annotations

import pytest

from ottla.cluster.image import ClusterImage
from ottla.cluster.registry_entries import apply_all
from ottla.cluster.scram import ScramRemoval, ScramUpsertion, alter, credential_in, credentials_in, text_of
from ottla.sasl.scram import SHA_256, SHA_512, credential_of
from ottla.wire.errors import (
    DUPLICATE_RESOURCE,
    NONE,
    RESOURCE_NOT_FOUND,
    UNACCEPTABLE_CREDENTIAL,
    UNSUPPORTED_SASL_MECHANISM,
)

ALICE = ScramUpsertion("alice", 1, 4096, b"salt", bytes(32))


def test_a_credential_stands_beside_what_else_is_set_for_its_user_and_goes_without_it() -> None:
    image = ClusterImage()
    (decision,) = alter({"alice": {"producer_byte_rate": "1024"}}, [], [ALICE])
    apply_all(image, decision.changes)
    assert credential_in(image.user_configs["alice"], SHA_256) == credential_of(SHA_256, bytes(32), b"salt", 4096)
    assert image.user_configs["alice"]["producer_byte_rate"] == "1024"
    (decision,) = alter(image.user_configs, [ScramRemoval("alice", 1)], [])
    apply_all(image, decision.changes)
    assert image.user_configs["alice"] == {"producer_byte_rate": "1024"}


def test_a_user_has_one_credential_of_each_kind() -> None:
    image = ClusterImage()
    for upsertion in (ALICE, ScramUpsertion("alice", 2, 8192, b"pepper", bytes(64))):
        apply_all(image, alter(image.user_configs, [], [upsertion])[0].changes)
    found = credentials_in(image.user_configs["alice"])
    assert {algorithm: credential.iterations for algorithm, credential in found.items()} == {SHA_256: 4096, SHA_512: 8192}


@pytest.mark.parametrize("name", ["a/b", ".", "..", "名", "a b", "<default>", "%41", "CN=x,O=y", "a\n"])
def test_any_name_can_have_one(name: str) -> None:
    image = ClusterImage()
    apply_all(image, alter({}, [], [ALICE._replace(user=name)])[0].changes)
    assert list(image.user_configs) == [name]


@pytest.mark.parametrize(
    ("upsertion", "error_code"),
    [
        (ALICE, NONE),
        (ALICE._replace(user=""), UNACCEPTABLE_CREDENTIAL),
        (ALICE._replace(user="a" * 256), UNACCEPTABLE_CREDENTIAL),
        (ALICE._replace(number=0), UNSUPPORTED_SASL_MECHANISM),
        (ALICE._replace(number=3), UNSUPPORTED_SASL_MECHANISM),
        (ALICE._replace(iterations=4095), UNACCEPTABLE_CREDENTIAL),
        (ALICE._replace(iterations=16384), NONE),
        (ALICE._replace(iterations=16385), UNACCEPTABLE_CREDENTIAL),
        (ALICE._replace(salted=bytes(31)), NONE),
        (ALICE._replace(salted=b""), UNACCEPTABLE_CREDENTIAL),
        (ALICE._replace(salt=b""), UNACCEPTABLE_CREDENTIAL),
    ],
)
def test_what_cannot_be_is_refused(upsertion: ScramUpsertion, error_code: int) -> None:
    (decision,) = alter({}, [], [upsertion])
    assert decision.error_code == error_code
    assert bool(decision.changes) == (error_code == NONE)


def test_what_is_not_there_cannot_be_removed() -> None:
    (decision,) = alter({"alice": {"SCRAM-SHA-512": "x"}}, [ScramRemoval("alice", 1)], [])
    assert decision.error_code == RESOURCE_NOT_FOUND


def test_who_is_named_twice_is_left_as_he_is() -> None:
    decisions = alter({}, [ScramRemoval("alice", 1)], [ALICE, ALICE._replace(user="bob")])
    assert [(one.name, one.error_code) for one in decisions] == [("alice", DUPLICATE_RESOURCE), ("bob", NONE)]


@pytest.mark.parametrize(
    "text", ["", "x", "salt=AA==", "salt=AA==,stored_key=AA==,server_key=AA==,iterations=4096", "salt=?,stored_key=,iterations=x"]
)
def test_a_damaged_credential_is_none(text: str) -> None:
    assert credential_in({"SCRAM-SHA-256": text}, SHA_256) is None


def test_it_is_written_in_kafkas_words() -> None:
    assert text_of(credential_of(SHA_256, bytes(32), b"salt", 4096)).startswith("salt=c2FsdA==,stored_key=")


def test_no_secret_is_shown() -> None:
    assert repr(ALICE) == "ScramUpsertion('alice', 1)"
