"""Requests of the longest names, and of very much of one thing: what cannot be divided, and what the registry keeps."""

from __future__ import annotations

from ottla.wire.api.alter_client_quotas import AlterClientQuotasRequest
from ottla.wire.api.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from ottla.wire.api.create_acls import CreateAclsRequest
from ottla.wire.api.delete_acls import DeleteAclsRequest
from ottla.wire.api.describe_acls import DescribeAclsRequest
from ottla.wire.api.describe_client_quotas import DescribeClientQuotasRequest
from ottla.wire.api.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from ottla.wire.api.leave_group import LeaveGroupRequest
from ottla.wire.api.list_groups import ListGroupsRequest
from ottla.wire.api.list_transactions import ListTransactionsRequest
from tests.siege.attack import attack
from tests.siege.site import Site, framed, press

BY_RULES = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
LONG = "n" * 32_000
USERS = 3000
QUOTAS = 900
TOPIC, LITERAL, READ, ALLOW, ANY = 2, 3, 3, 3, 1
Upsertion = AlterUserScramCredentialsRequest.ScramCredentialUpsertion
Rule = CreateAclsRequest.AclCreation
Filter = DeleteAclsRequest.DeleteAclsFilter
Entry = AlterClientQuotasRequest.EntryData


@attack("LeaveGroup, ListGroups and ListTransactions of names of 32 KB, 7 MB and 90 MB of them, in turn", minor=True)
def names_that_cannot_be_divided(site: Site) -> None:
    frames = []
    for count in (220, 2800):
        names = [f"{number}{LONG}" for number in range(count)]
        members = [LeaveGroupRequest.MemberIdentity(member_id=name) for name in names]
        frames += [
            framed(LeaveGroupRequest(group_id=site.named("group"), members=members), 5),
            framed(ListGroupsRequest(states_filter=names), 5),
            framed(ListTransactionsRequest(state_filters=names), 0),
        ]
    press(site, lambda number: frames[number % len(frames)], lines=2)


@attack(
    "8 000 rules of which half are about one topic are created, told and deleted again and again", settings=BY_RULES, minor=True
)
def rules_by_the_thousand(site: Site) -> None:
    rules = [_rule(site.topic, f"User:u{number}") for number in range(4000)]
    rules += [_rule(site.named(number), "User:u") for number in range(4000)]
    frames = [
        framed(CreateAclsRequest(creations=rules), 3),
        framed(_told(), 3),
        framed(DeleteAclsRequest(filters=[_filter(f"User:nobody{number}") for number in range(100)]), 3),
        framed(DeleteAclsRequest(filters=[_filter(None)]), 3),
    ]
    press(site, lambda number: frames[number % len(frames)])


@attack("credentials of 3 000 users and quotas of 900 are changed and told again and again, with names of 4 KB", minor=True)
def users_by_the_thousand(site: Site) -> None:
    users = [
        Upsertion(name=f"u{number}", mechanism=1, iterations=4096, salt=b"salt", salted_password=bytes(32))
        for number in range(USERS)
    ]
    frames = [
        framed(AlterUserScramCredentialsRequest(upsertions=users), 0),
        framed(DescribeUserScramCredentialsRequest(users=None), 0),
        framed(AlterClientQuotasRequest(entries=[_quota(f"{number}{'/' * 4000}") for number in range(QUOTAS)]), 1),
        framed(DescribeClientQuotasRequest(), 1),
    ]
    press(site, lambda number: frames[number % len(frames)])


def _rule(topic: str, principal: str) -> Rule:
    return Rule(
        resource_type=TOPIC,
        resource_name=topic,
        resource_pattern_type=LITERAL,
        principal=principal,
        host="*",
        operation=READ,
        permission_type=ALLOW,
    )


def _filter(principal: str | None) -> Filter:
    return Filter(
        resource_type_filter=ANY,
        resource_name_filter=None,
        pattern_type_filter=ANY,
        principal_filter=principal,
        host_filter=None,
        operation=ANY,
        permission_type=ANY,
    )


def _told() -> DescribeAclsRequest:
    return DescribeAclsRequest(
        resource_type_filter=ANY,
        resource_name_filter=None,
        pattern_type_filter=ANY,
        principal_filter=None,
        host_filter=None,
        operation=ANY,
        permission_type=ANY,
    )


def _quota(user: str) -> Entry:
    entity = [AlterClientQuotasRequest.EntityData(entity_type="user", entity_name=user)]
    return Entry(entity=entity, ops=[AlterClientQuotasRequest.OpData(key="producer_byte_rate", value=1e9)])
