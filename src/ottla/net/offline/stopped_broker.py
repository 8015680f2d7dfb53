"""The users and ACLs of a broker that does not run, in the registry of its data directory (KIP-900).

This can create the first user of a broker whose listeners all require authentication. The directory is locked as by a running
broker. No logs and no connections are opened.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from ottla.client.admin.acls import AclRule, create_request, rule_of
from ottla.client.admin.users import DEFAULT_ITERATIONS, DEFAULT_MECHANISM, Users, algorithm_of, set_passwords_request
from ottla.client.errors import raise_for
from ottla.cluster import acls, scram
from ottla.cluster.acls import Acl, AclFilter, Operation, Pattern, Permission, Resource
from ottla.cluster.decision import Decision
from ottla.cluster.image import ClusterImage
from ottla.cluster.registry_entries import apply_all, load
from ottla.cluster.scram import ScramRemoval, ScramUpsertion
from ottla.net.disk.disk import RealDisk
from ottla.net.startup.data_directory import META, DataDirectory, DataDirectoryError
from ottla.net.startup.old_registry import open_registry
from ottla.ports import Registry, RegistryDamaged, StorageFailed


class StoppedBroker:
    """The methods of `Admin` for users and ACLs, with the same arguments and exceptions. Changes are durable on return."""

    def __init__(self, registry: Registry) -> None:
        """Load the registry. Raises `RegistryDamaged`. Every method can raise `StorageFailed`."""
        self._registry = registry
        self._image = ClusterImage()
        load(self._image, registry)

    def list_users(self, *names: str) -> Users:
        """Return the number of SCRAM iterations by user name and mechanism. Without `names`, return all users."""
        found = {user: scram.credentials_in(configs) for user, configs in sorted(self._image.user_configs.items())}
        return {
            user: {algorithm.name: credential.iterations for algorithm, credential in credentials.items()}
            for user, credentials in found.items()
            if credentials and (not names or user in names)
        }

    def set_user_password(
        self, name: str, password: str, *, mechanism: str = DEFAULT_MECHANISM, iterations: int = DEFAULT_ITERATIONS
    ) -> None:
        """Set a user's SCRAM password. Raises `SettingError` and `BrokerError`."""
        (made,) = set_passwords_request({name: password}, algorithm_of(mechanism), iterations, os.urandom).upsertions
        wanted = ScramUpsertion(name, made.mechanism, iterations, bytes(made.salt), bytes(made.salted_password))
        self._make(f"User {name}", scram.alter(self._image.user_configs, [], [wanted]))

    def remove_user(self, name: str, *, mechanism: str = DEFAULT_MECHANISM) -> None:
        """Remove a user's credential for a SCRAM mechanism. Raises `SettingError` and `BrokerError`."""
        wanted = ScramRemoval(name, algorithm_of(mechanism).number)
        self._make(f"User {name}", scram.alter(self._image.user_configs, [wanted], []))

    def list_acls(self, principal: str | None = None, resource: str | None = None, name: str | None = None) -> list[AclRule]:
        """Return the ACLs that match a principal, a resource type and a resource name. None matches all."""
        rules = map(_rule, self._image.acls)
        wanted = (principal, resource, name)
        return sorted(
            rule
            for rule in rules
            if all(one in (None, has) for one, has in zip(wanted, (rule.principal, rule.resource, rule.name), strict=True))
        )

    def create_acls(self, rules: Iterable[AclRule]) -> None:
        """Create ACLs. Raises `SettingError` and `BrokerError`."""
        self._make("Creating an ACL", acls.create(self._image.acls, _acls(rules)))

    def delete_acls(self, rules: Iterable[AclRule]) -> list[AclRule]:
        """Delete exactly these ACLs. Return the deleted ones, without the ones that did not exist. Raises `SettingError`."""
        filters = [
            AclFilter(acl.resource, acl.pattern, acl.name, acl.principal, acl.host, acl.operation, acl.permission)
            for acl in _acls(rules)
        ]
        fitting, decision = acls.delete(self._image.acls, filters, list(self._image.acls.rules))
        self._make("Deleting ACLs", [decision])
        return sorted(_rule(acl) for found in fitting for acl in found)

    def _make(self, what: str, decisions: Iterable[Decision]) -> None:
        for decision in decisions:
            raise_for(decision.error_code, what, decision.message)
            self._registry.commit(decision.changes)
            apply_all(self._image, decision.changes)


@contextmanager
def stopped_broker(path: str, *, is_new: bool = False, node_id: int | None = None) -> Iterator[StoppedBroker]:
    """Lock a data directory for the time of this context manager. With `is_new`, create a missing directory as a first start does.

    Raises `DataDirectoryError` if the directory is missing, its broker runs, its registry is damaged, or its disk fails.
    """
    if not is_new and not Path(path, META).exists():
        raise DataDirectoryError(f"{path} has no {META}, so it is no data directory: name one that a broker has used.")
    directory = DataDirectory.open(path, node_id=node_id)
    try:
        with (
            closing(RealDisk(path, lambda call: call(), reserve=directory.reserve)) as disk,
            closing(open_registry(path, disk)) as registry,
        ):
            yield StoppedBroker(registry)
    except RegistryDamaged as damage:
        raise DataDirectoryError(f"The data directory {path} cannot be used: {damage}.") from damage
    except StorageFailed as failure:
        raise DataDirectoryError(
            f"The data directory {path} cannot be used ({failure}): repair that, and run this command again."
        ) from failure
    finally:
        if directory.clean:
            directory.close()
        else:
            directory.release()


def _acls(rules: Iterable[AclRule]) -> list[Acl]:
    """Convert the ACL rules of the client to the broker's ACLs. Raises `SettingError`."""
    return [
        Acl(
            Resource(made.resource_type),
            Pattern(made.resource_pattern_type),
            made.resource_name,
            made.principal,
            made.host,
            Operation(made.operation),
            Permission(made.permission_type),
        )
        for made in create_request(rules).creations
    ]


def _rule(acl: Acl) -> AclRule:
    return rule_of(acl.principal, acl.operation, acl.resource, acl.name, acl.pattern, acl.host, acl.permission)
