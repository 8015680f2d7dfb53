"""Which user a Kerberos principal is, by `sasl.kerberos.principal.to.local.rules`."""

from __future__ import annotations

import pytest

from ottla.broker.security.kerberos_names import parse_rules, short_name


@pytest.mark.parametrize(
    ("rules", "principal", "user"),
    [
        (["DEFAULT"], "alice@REALM", "alice"),
        (["DEFAULT"], "kafka/host.test@REALM", "kafka"),
        (["DEFAULT"], "alice@OTHER", None),
        (["DEFAULT"], "alice", "alice"),
        (["DEFAULT"], "a/b/c@REALM", None),
        (["DEFAULT"], "alice@REALM@REALM", None),
        (["DEFAULT"], r"alice\/admin@REALM", None),
        (["DEFAULT"], "", None),
        (["DEFAULT"], "@REALM", None),
        (["RULE:[1:$1]"], "alice@OTHER", "alice"),
        (["RULE:[1:$1]", "DEFAULT"], "kafka/h@REALM", "kafka"),
        (["RULE:[2:$1-$2]"], "kafka/h@REALM", "kafka-h"),
        (["RULE:[1:$1@$0](.*@OTHER)s/@.*//"], "alice@OTHER", "alice"),
        (["RULE:[1:$1@$0](.*@OTHER)s/@.*//"], "alice@OTHERS", None),
        (["RULE:[1:$1@$0]"], "alice@OTHER", None),
        (["RULE:[1:$1]/L"], "Alice@OTHER", "alice"),
        (["RULE:[1:$1]/U"], "Alice@OTHER", "ALICE"),
        (["RULE:[1:$1](a.*)s/l/1/g/L"], "aLlice-all@X", "al1ice-a11"),
        (["RULE:[1:$1]s/(.)(.)/$2$1/"], "ab@X", "ba"),
        (["RULE:[1:$1](zz)", "RULE:[1:other]"], "alice@X", "other"),
        ([], "alice@REALM", None),
    ],
)
def test_the_first_rule_for_a_principal_says_who_it_is(rules: list[str], principal: str, user: str | None) -> None:
    assert short_name(parse_rules(rules, "REALM"), principal) == user


@pytest.mark.parametrize(
    "rule", ["", "RULE", "RULE:[1]", "RULE:[1:$1](", "RULE:[1:$2]", "RULE:[1:$1](()", "DEFAULT,x", "RULE:[1:$1]s/a/b"]
)
def test_a_rule_that_cannot_be_read_is_quoted(rule: str) -> None:
    with pytest.raises(ValueError, match=r"write DEFAULT|use|correct it"):
        parse_rules([rule], "REALM")
