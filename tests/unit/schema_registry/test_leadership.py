"""The election of a registry's leader: what members send, and whom they choose."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from ottla.schema_registry.leadership import (
    DUPLICATE_URLS,
    InstanceIdentity,
    assign,
    decode_assignment,
    decode_identity,
    encode_identity,
)

A, B, C = (InstanceIdentity(f"host-{name}", 8081) for name in "abc")
LEADS = replace(B, leader=True)


def leader_of(*members: InstanceIdentity) -> InstanceIdentity | None:
    """Return the leader that these members choose."""
    metadata = {f"member-{number}": encode_identity(each) for number, each in enumerate(members)}
    found = decode_assignment(assign(metadata)).leader
    return None if found is None else replace(found, leader=False)


def test_the_smallest_url_leads_unless_another_member_leads_already() -> None:
    assert leader_of(C, A, B) == A
    assert leader_of(C, A, LEADS) == B
    assert leader_of(C, LEADS, replace(A, leader=True)) == A  # after a partition there were two


def test_members_that_may_not_lead_do_not() -> None:
    assert leader_of(replace(A, master_eligibility=False), B) == B
    assert leader_of(replace(A, master_eligibility=False)) is None


def test_members_with_one_url_are_an_error() -> None:
    assert decode_assignment(assign({"x": encode_identity(A), "y": encode_identity(A)})).error == DUPLICATE_URLS
    assert decode_assignment(assign({"x": encode_identity(A), "y": encode_identity(B)})).error == 0


def test_metadata_of_confluents_registry_are_read() -> None:
    data = b'{"version":1,"host":"host-a","port":8081,"master_eligibility":true,"scheme":"http","leader":false}'
    assert decode_identity(data) == A
    assert json.loads(encode_identity(A)) == json.loads(data)
    assignment = json.dumps({"version": 1, "error": 0, "master": "sr-1", "master_identity": json.loads(data)}).encode()
    assert decode_assignment(assignment).leader == A


def test_other_bytes_are_no_member() -> None:
    for data in b"", b"\0", b"[]", b"{}", b'{"host":"a","port":"x"}':
        assert decode_identity(data) is None
    found = decode_assignment(assign({"x": b"other", "y": encode_identity(A)})).leader
    assert found == replace(A, leader=True)
    for data in b"", b"[]", b'{"master_identity":7}', b'{"error":"x"}':
        with pytest.raises(ValueError, match=r".*"):
            decode_assignment(data)


def test_urls_of_ipv6_have_brackets() -> None:
    assert InstanceIdentity("::1", 1, "https").url == "https://[::1]:1"
