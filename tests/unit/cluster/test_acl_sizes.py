"""How large the entry of a resource with many rules becomes: ZooKeeper takes no more than 1 MB."""

from __future__ import annotations

import pytest

from ottla.cluster import acls
from ottla.cluster.acls import MOST_BYTES, Acl, Acls, Operation, Pattern, Permission, Resource
from ottla.wire.errors import NONE, POLICY_VIOLATION


@pytest.mark.parametrize("character", ["x", "\u00e9", "\U0001f600", "\x01", '"', "\\"])
def test_an_entry_stays_small_whatever_its_principals_are_written_with(character: str) -> None:
    principals = [f"User:{character * 1_000}{number}" for number in range(600)]
    wanted = [Acl(Resource.TOPIC, Pattern.LITERAL, "t", each, "*", Operation.READ, Permission.ALLOW) for each in principals]
    decisions = acls.create(Acls(), wanted)
    (change,) = (change for decision in decisions for change in decision.changes)
    assert change.value is not None
    assert MOST_BYTES // 10 < len(change.value) < 1.1 * MOST_BYTES
    assert {decision.error_code for decision in decisions} == {NONE, POLICY_VIOLATION}
