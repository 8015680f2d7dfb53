"""Names of subjects, which a context may qualify: `:.context:subject`. Pure."""

from __future__ import annotations

DEFAULT_CONTEXT = "."
GLOBAL_CONTEXT = ".__GLOBAL"
ALL_CONTEXTS = ":*:"
_RESERVED = ("__GLOBAL", "__EMPTY")


def split(name: str) -> tuple[str, str]:
    """Return the context of a qualified subject, and its subject."""
    if name.startswith(":."):
        context, _, subject = name[1:].partition(":")
        return context, subject
    if name.startswith(ALL_CONTEXTS):
        return "*", name[len(ALL_CONTEXTS) :]
    return DEFAULT_CONTEXT, name


def context_of(name: str) -> str:
    """Return the context of a qualified subject."""
    return split(name)[0]


def qualify(context: str, subject: str) -> str:
    """Return the name of a subject of a context."""
    return subject if context == DEFAULT_CONTEXT else f":{context}:{subject}"


def normalize(name: str) -> str:
    """Return the one spelling of a subject's name: `:.:a` is `a`, and `:.x` is `:.x:`."""
    return qualify(*split(name))


def within(parent: str, name: str) -> str:
    """Return the name of a subject to which a schema of the subject `parent` refers. It is in the same context by default."""
    return normalize(name) if context_of(name) != DEFAULT_CONTEXT else qualify(context_of(parent), split(name)[1])


def prefix_of(context: str) -> str:
    """Return the name under which a context has its settings."""
    return qualify(context, "")


def is_valid(name: str, *, names_settings: bool = False) -> bool:
    """Return whether a subject can have this name; settings can belong to whole contexts."""
    context, subject = split(name)
    if any(ord(char) < 32 or 127 <= ord(char) < 160 for char in name) or subject in _RESERVED or not _encodes(name):
        return False
    return names_settings or (bool(subject) and subject != "*" and context not in (GLOBAL_CONTEXT, "*"))


def _encodes(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def matches(name: str, prefix: str) -> bool:
    """Return whether a subject is among those with a prefix. `:*:` matches in every context, others in the default one."""
    context, subject = split(prefix)
    own_context, own_subject = split(name)
    return context in ("*", own_context) and own_subject.startswith(subject)
