"""The rules of `ssl.principal.mapping.rules`, which map certificate subjects to principals (KIP-371). Parses no certificates."""

from __future__ import annotations

import re
from typing import NamedTuple

from ottla.errors import SettingError

ANONYMOUS = "User:ANONYMOUS"
RULE = re.compile(r"\s*(?:(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?))\s*(?:,|$)")
"""One rule and its comma; patterns may contain commas too."""


class NoRule(ValueError):
    """Raised when no rule matches the subject of a certificate, which therefore has no principal."""


class Rule(NamedTuple):
    """A rule that maps certificate subjects, which `pattern` matches entirely, to principals.

    A rule without a pattern returns the subject unchanged.
    """

    pattern: re.Pattern[str] | None
    replacement: str = ""
    case: str = ""

    def apply(self, name: str) -> str | None:
        if self.pattern is None:
            return name
        found = self.pattern.fullmatch(name)
        if found is None:
            return None
        user = re.sub(r"\\(.)|\$(\d)", lambda part: part[1] or found[int(part[2])] or "", self.replacement)
        return {"L": str.lower, "U": str.upper}.get(self.case, str)(user)


def rules(text: str) -> tuple[Rule, ...]:
    """Parse the setting. Raises `SettingError`."""
    found, position = list[Rule](), 0
    while position < len(text):
        part = RULE.match(text, position)
        if part is None:
            raise SettingError(
                f"ssl.principal.mapping.rules is not understood from {text[position:]!r}: write RULE:pattern/replacement/, L "
                "or U behind it or nothing, or DEFAULT, separated by commas."
            )
        found.append(Rule(None) if part[1] else _rule(*part.groups()[1:]))
        position = part.end()
    return tuple(found) or (Rule(None),)


def _rule(pattern: str, replacement: str, case: str) -> Rule:
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise SettingError(f"ssl.principal.mapping.rules has the pattern {pattern!r}, which is none: {error}.") from None
    if any(int(number) > compiled.groups for number in re.findall(r"(?<!\\)\$(\d)", replacement)):
        raise SettingError(f"ssl.principal.mapping.rules replaces by {replacement!r}, but {pattern!r} has fewer groups: add those.")
    return Rule(compiled, replacement, case)


def user_of(subject: str, mapping: tuple[Rule, ...]) -> str:
    """Return the principal of a subject by the first rule that matches. Raises `NoRule`."""
    for rule in mapping:
        user = rule.apply(subject)
        if user is not None:
            return f"User:{user}"
    raise NoRule(f"no rule of ssl.principal.mapping.rules fits {subject!r}")
