"""An admin client's requests about ACLs (KIP-11, KIP-140). The module sends nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from ottla.client.admin.results import outcome
from ottla.client.arguments import each_is, text
from ottla.client.errors import KafkaError, raise_for
from ottla.errors import SettingError
from ottla.wire.api.create_acls import CreateAclsRequest, CreateAclsResponse
from ottla.wire.api.delete_acls import DeleteAclsRequest, DeleteAclsResponse
from ottla.wire.api.describe_acls import DescribeAclsRequest, DescribeAclsResponse

RESOURCES: Final = {"topic": 2, "group": 3, "cluster": 4, "transactional-id": 5, "delegation-token": 6, "user": 7}
PATTERNS: Final = {"literal": 3, "prefixed": 4}
OPERATIONS: Final = {
    "all": 2,
    "read": 3,
    "write": 4,
    "create": 5,
    "delete": 6,
    "alter": 7,
    "describe": 8,
    "cluster-action": 9,
    "describe-configs": 10,
    "alter-configs": 11,
    "idempotent-write": 12,
    "create-tokens": 13,
    "describe-tokens": 14,
    "two-phase-commit": 15,
}
PERMISSIONS: Final = {"deny": 2, "allow": 3}
ANY: Final = 1
FILTER_PATTERNS: Final = {**PATTERNS, "match": 2}
"""The patterns of filters: "match" selects the ACLs that apply to a resource, by wildcards and prefixes, too (KIP-290)."""


class AclRule(NamedTuple):
    """An ACL: `principal` ("User:name") is allowed or denied `operation`, from `host`, on the resources of `pattern` and `name`.

    The attributes have the words of Kafka's tools, in lower case: resource "topic", "group", "cluster", "transactional-id"; pattern
    "literal" or "prefixed"; operation "read", "describe-configs"; permission "allow" or "deny".
    """

    principal: str
    operation: str
    resource: str
    name: str
    pattern: str = "literal"
    host: str = "*"
    permission: str = "allow"


class AclRuleFilter(NamedTuple):
    """A filter of ACLs, by the attributes of `AclRule`; None matches all. `pattern` "match" also selects wildcards and prefixes."""

    principal: str | None = None
    operation: str | None = None
    resource: str | None = None
    name: str | None = None
    pattern: str | None = None
    host: str | None = None
    permission: str | None = None


def create_request(rules: Iterable[AclRule]) -> CreateAclsRequest:
    """Build the request that creates ACLs. Raises `SettingError` for a word that Kafka does not have."""
    return CreateAclsRequest(
        creations=[
            CreateAclsRequest.AclCreation(
                resource_type=resource,
                resource_name=rule.name,
                resource_pattern_type=pattern,
                principal=rule.principal,
                host=rule.host,
                operation=operation,
                permission_type=permission,
            )
            for rule, resource, pattern, operation, permission in _with_numbers(rules)
        ]
    )


def read_created(answer: CreateAclsResponse, rules: Iterable[AclRule]) -> Iterator[tuple[AclRule, KafkaError | None]]:
    """Yield (ACL, its error or None) for the `rules` of the request, whose order the answer has."""
    for rule, result in zip(rules, answer.results, strict=False):
        yield rule, outcome(result.error_code, None, "Creating an ACL", result.error_message)


def describe_request(wanted: AclRuleFilter) -> DescribeAclsRequest:
    """Build the request for the ACLs that match a filter. Raises `SettingError`."""
    resource, pattern, operation, permission = _filter_numbers(wanted)
    return DescribeAclsRequest(
        resource_type_filter=resource,
        resource_name_filter=wanted.name,
        pattern_type_filter=pattern,
        principal_filter=wanted.principal,
        host_filter=wanted.host,
        operation=operation,
        permission_type=permission,
    )


def read_rules(answer: DescribeAclsResponse) -> list[AclRule]:
    """Return the ACLs in the answer, sorted. Raises `BrokerError` for an error code in the answer."""
    raise_for(answer.error_code, "Describing ACLs", answer.error_message)
    return sorted(_rule(acl, found) for found in answer.resources for acl in found.acls)


def delete_request(filters: Iterable[AclRuleFilter]) -> DeleteAclsRequest:
    """Build the request that deletes the ACLs that match `filters`. Raises `SettingError` for a word that Kafka does not have."""
    made = []
    for each in filters:
        resource, pattern, operation, permission = _filter_numbers(each)
        made.append(
            DeleteAclsRequest.DeleteAclsFilter(
                resource_type_filter=resource,
                resource_name_filter=each.name,
                pattern_type_filter=pattern,
                principal_filter=each.principal,
                host_filter=each.host,
                operation=operation,
                permission_type=permission,
            )
        )
    return DeleteAclsRequest(filters=made)


def read_deleted(
    answer: DeleteAclsResponse, filters: Iterable[AclRuleFilter]
) -> Iterator[tuple[AclRuleFilter, list[AclRule] | KafkaError]]:
    """Yield (filter, its deleted ACLs, or an error) for the `filters` of the request, whose order the answer has."""
    for each, result in zip(filters, answer.filter_results, strict=False):
        refused = next((acl for acl in result.matching_acls if acl.error_code), result)
        rules = sorted(_rule(acl, acl) for acl in result.matching_acls)
        yield each, outcome(refused.error_code, rules, "Deleting ACLs", refused.error_message)


MatchingAcl = DeleteAclsResponse.DeleteAclsMatchingAcl


def _rule(
    acl: DescribeAclsResponse.AclDescription | MatchingAcl, of: DescribeAclsResponse.DescribeAclsResource | MatchingAcl
) -> AclRule:
    """Return an ACL of an answer as an `AclRule`. `of` has the resource to which the ACL applies."""
    return rule_of(acl.principal, acl.operation, of.resource_type, of.resource_name, of.pattern_type, acl.host, acl.permission_type)


def rule_of(principal: str, operation: int, resource: int, name: str, pattern: int, host: str, permission: int) -> AclRule:
    """Return an ACL whose words are given as Kafka's numbers."""
    of = _word(RESOURCES, resource), name, _word(PATTERNS, pattern)
    return AclRule(principal, _word(OPERATIONS, operation), *of, host, _word(PERMISSIONS, permission))


def _with_numbers(rules: Iterable[AclRule]) -> Iterator[tuple[AclRule, int, int, int, int]]:
    """Yield (rule, Kafka's numbers of its resource, pattern, operation and permission). Raises `SettingError`."""
    for rule in each_is(AclRule, "rules", rules):
        resource, pattern = _number(RESOURCES, rule.resource), _number(PATTERNS, rule.pattern)
        yield rule, resource, pattern, _number(OPERATIONS, rule.operation), _number(PERMISSIONS, rule.permission)


def _filter_numbers(wanted: AclRuleFilter) -> tuple[int, int, int, int]:
    """Return Kafka's numbers of resource, pattern, operation and permission. Raises `TypeError`, `SettingError`."""
    for noun, value in (("principal", wanted.principal), ("The name of a resource", wanted.name), ("host", wanted.host)):
        if value is not None:
            text(noun, value)
    given = (
        (RESOURCES, wanted.resource), (FILTER_PATTERNS, wanted.pattern),
        (OPERATIONS, wanted.operation), (PERMISSIONS, wanted.permission),
    )  # fmt: skip
    resource, pattern, operation, permission = (ANY if word is None else _number(words, word) for words, word in given)
    return resource, pattern, operation, permission


def _number(words: Mapping[str, int], word: str) -> int:
    if word not in words:
        raise SettingError(f"{word!r} is not a word of an ACL: choose one of {', '.join(words)}.")
    return words[word]


NOT_REQUESTED: Final = -(1 << 31)
"""The value of permitted operations in the answer to a request that did not ask for them, or from an older broker."""


def operation_words(bits: int) -> frozenset[str] | None:
    """Return the words of the operations that a client is permitted (KIP-430), or None if the answer does not have them."""
    return None if bits == NOT_REQUESTED else frozenset(word for word, number in OPERATIONS.items() if bits >> number & 1)


def _word(words: dict[str, int], number: int) -> str:
    return next((word for word, known in words.items() if known == number), "unknown")
