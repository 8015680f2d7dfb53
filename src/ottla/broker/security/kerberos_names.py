"""The rules of `sasl.kerberos.principal.to.local.rules`, which map Kerberos principals to users (KIP-12). Depends on text only."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Final

DEFAULT: Final = "DEFAULT"
_RULE: Final = re.compile(r"RULE:\[(\d+):([^\]]*)\](?:\(([^)]*)\))?(?:s/([^/]*)/([^/]*)/(g)?)?/?([LU])?")
_PRINCIPAL: Final = re.compile("([^/@]+)(?:/([^/@]*))?@([^/@]*)")

Parts = tuple[str, ...]
"""The realm of a principal, followed by the components of its name."""


@dataclass(frozen=True, slots=True)
class KerberosRule:
    """RULE:[count:form](fits)s/pattern/replacement/g/case: a rule for names of `count` components.

    `form` contains $0 for the realm, and $1 and $2 for the components. The filled form must match `fits` entirely. The matches of
    `pattern` in it are then replaced.
    """

    count: int
    form: str
    fits: re.Pattern[str] | None = None
    pattern: re.Pattern[str] | None = None
    replacement: str = ""
    everywhere: bool = False
    case: str = ""

    def apply(self, parts: Parts) -> str | None:
        """Return the user; None if this rule does not apply to the principal."""
        if len(parts) - 1 != self.count:
            return None
        base = re.sub(r"\$(\d+)", lambda number: parts[int(number[1])], self.form)
        if self.fits is not None and not self.fits.fullmatch(base):
            return None
        if self.pattern is not None:
            base = self.pattern.sub(self.replacement, base, count=0 if self.everywhere else 1)
        return base.lower() if self.case == "L" else base.upper() if self.case == "U" else base


ShortName = Callable[[Parts], str | None]


def short_name(rules: Iterable[ShortName], principal: str) -> str | None:
    """Return the user of a principal (name/host@REALM) by the first rule that applies; None if no rule results in a plain name."""
    if "\\" in principal:  # an escaped separator would be parsed as part of another name
        return None
    if "@" not in principal:
        return principal if principal and "/" not in principal else None
    found = _PRINCIPAL.fullmatch(principal)
    if found is None:
        return None
    name, host, realm = found.groups()
    parts = (realm, name) if host is None else (realm, name, host)
    for rule in rules:
        user = rule(parts)
        if user is not None:
            return user if user and not re.search("[/@]", user) else None
    return None


def parse_rules(texts: Iterable[str], default_realm: str) -> list[ShortName]:
    """Parse rules. Raises `ValueError` with a message that quotes the invalid rule."""
    return [_parse(text.strip(), default_realm) for text in texts]


def _parse(text: str, default_realm: str) -> ShortName:
    if text == DEFAULT:
        return partial(_default, default_realm)
    found = _RULE.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not a rule: write DEFAULT, or RULE:[components:form](pattern)s/pattern/replacement/g/L.")
    count, form, fits, pattern, replacement, everywhere, case = found.groups()
    if any(int(number) > int(count) for number in re.findall(r"\$(\d+)", form)):
        raise ValueError(f"{text!r} names a component beyond the {count} that it is for: use $0 (the realm) to ${count}.")
    try:
        return KerberosRule(
            int(count),
            form,
            None if fits is None else re.compile(fits),
            None if pattern is None else re.compile(pattern),
            re.sub(r"\$(\d)", r"\\g<\1>", (replacement or "").replace("\\", "\\\\")),
            bool(everywhere),
            case or "",
        ).apply
    except re.error as wrong:
        raise ValueError(f"{text!r} has an invalid pattern ({wrong}): correct it.") from None


def _default(default_realm: str, parts: Parts) -> str | None:
    return parts[1] if default_realm and parts[0] == default_realm else None
