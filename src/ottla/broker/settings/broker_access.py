"""The broker's settings for authorization. Declarations only."""

from __future__ import annotations

from ottla.broker.settings.kinds import BOOLEAN, STRING, BadValue, Kind
from ottla.broker.settings.setting import Setting, SettingsOf

LIST_CODE = 7

BY_RULES = ("org.apache.kafka.metadata.authorizer.StandardAuthorizer", "kafka.security.authorizer.AclAuthorizer")
"""Kafka's authorizer class names. Both mean the authorizer based on ACLs."""


def _principals(text: str) -> tuple[str, ...]:
    """Parse principals separated by semicolons, as in Kafka, because names in certificates contain commas."""
    principals = tuple(item.strip() for item in text.split(";") if item.strip())
    for principal in principals:
        kind, colon, name = principal.partition(":")
        if not (kind and colon and name):
            raise BadValue("Write super users with their type, separated by semicolons: User:admin;User:CN=operator,O=house")
    return principals


PRINCIPALS: Kind[tuple[str, ...]] = Kind("list", LIST_CODE, _principals, ";".join)


class AccessSettings(SettingsOf):
    """Settings for authorization."""

    allow_everyone_if_no_acl_found = Setting(
        BOOLEAN, False, "Allow everyone to use resources without ACLs; otherwise only super users may."
    )
    authorizer_class_name = Setting(
        STRING,
        "",
        "The authorizer: Kafka's StandardAuthorizer (or AclAuthorizer), by ACLs, or module:Class for one in Python. Without it "
        "everything is allowed.",
    )
    super_users = Setting(PRINCIPALS, (), "The principals that may do everything, regardless of ACLs: User:admin;User:operator.")
