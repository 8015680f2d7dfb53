"""Refusals of the schema registry: an HTTP status, an error code and a message, as in Confluent's API. Pure."""

from __future__ import annotations

CONFLICT = 409
INVALID_SCHEMA = 42201


class RegistryRefusal(Exception):
    """A request that the registry refuses. The first three digits of `code` are the HTTP status."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message

    @property
    def status(self) -> int:
        """Return the HTTP status."""
        return int(str(self.code)[:3])


class InvalidSchema(Exception):
    """A text that is no schema of its format, with the reason as a clause."""


def no_subject(subject: str) -> RegistryRefusal:
    """Return the refusal for an unknown subject."""
    return RegistryRefusal(40401, f"Subject '{subject}' not found.")


def no_version(version: object) -> RegistryRefusal:
    """Return the refusal for an unknown version of a subject."""
    return RegistryRefusal(40402, f"Version {version} not found.")


def no_schema(name: object = None) -> RegistryRefusal:
    """Return the refusal for an unknown schema, or an unknown id."""
    return RegistryRefusal(40403, "Schema not found" if name is None else f"Schema {name} not found")


def subject_deleted(subject: str) -> RegistryRefusal:
    """Return the refusal to delete a deleted subject once more."""
    return RegistryRefusal(40404, f"Subject '{subject}' was soft deleted. Set permanent=true to delete permanently")


def subject_not_deleted(subject: str) -> RegistryRefusal:
    """Return the refusal to remove a subject that was not deleted before."""
    return RegistryRefusal(40405, f"Subject '{subject}' was not deleted first before being permanently deleted")


def version_deleted(subject: str, version: int) -> RegistryRefusal:
    """Return the refusal to delete a deleted version once more."""
    return RegistryRefusal(
        40406, f"Subject '{subject}' Version {version} was soft deleted. Set permanent=true to delete permanently"
    )


def version_not_deleted(subject: str, version: int) -> RegistryRefusal:
    """Return the refusal to remove a version that was not deleted before."""
    return RegistryRefusal(40407, f"Subject '{subject}' Version {version} was not deleted first before being permanently deleted")


def no_config(subject: str) -> RegistryRefusal:
    """Return the refusal for a subject without a compatibility level of its own."""
    return RegistryRefusal(40408, f"Subject '{subject}' does not have subject-level compatibility configured")


def no_mode(subject: str) -> RegistryRefusal:
    """Return the refusal for a subject without a mode of its own."""
    return RegistryRefusal(40409, f"Subject '{subject}' does not have subject-level mode configured")


def incompatible(subject: str, details: list[str]) -> RegistryRefusal:
    """Return the refusal to register an incompatible schema."""
    text = ", ".join(details)
    message = f'Schema being registered is incompatible with an earlier schema for subject "{subject}", details: [{text}]'
    return RegistryRefusal(CONFLICT, message)


def invalid_schema(reason: object) -> RegistryRefusal:
    """Return the refusal of a text that is no schema."""
    return RegistryRefusal(INVALID_SCHEMA, f"Invalid schema: {reason}")


def invalid_version(version: object) -> RegistryRefusal:
    """Return the refusal of a version that is no number."""
    return RegistryRefusal(
        42202,
        f"The specified version '{version}' is not a valid version id. "
        'Allowed values are between [1, 2^31-1] and the string "latest"',
    )


def invalid_level() -> RegistryRefusal:
    """Return the refusal of an unknown compatibility level."""
    return RegistryRefusal(
        42203,
        "Invalid compatibility level. Valid values are none, backward, forward, full, "
        "backward_transitive, forward_transitive, and full_transitive",
    )


def invalid_mode() -> RegistryRefusal:
    """Return the refusal of an unknown mode."""
    return RegistryRefusal(42204, "Invalid mode. Valid values are READWRITE, READONLY, READONLY_OVERRIDE, and IMPORT.")


def not_permitted(reason: str) -> RegistryRefusal:
    """Return the refusal of a change that the mode forbids."""
    return RegistryRefusal(42205, reason)


def still_referenced(subject: str, version: int) -> RegistryRefusal:
    """Return the refusal to delete a schema to which others refer."""
    key = f"{{magic=1,keytype=SCHEMA,subject={subject},version={version}}}"
    return RegistryRefusal(42206, f"One or more references exist to the schema {key}.")


def invalid_subject(subject: str) -> RegistryRefusal:
    """Return the refusal of a subject's name."""
    return RegistryRefusal(42208, f"The specified subject '{subject}' is not a valid subject name.")
