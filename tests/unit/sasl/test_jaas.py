"""The login modules of Java's configuration, and what is said about text that holds none."""

from __future__ import annotations

import pytest

from ottla.sasl.jaas import EXAMPLE, parse


def test_a_login_module_has_a_name_and_options() -> None:
    module = parse(EXAMPLE)
    assert module.name == "org.apache.kafka.common.security.plain.PlainLoginModule"
    assert module.options == {"username": "NAME", "password": "PASSWORD"}


def test_lines_comments_and_both_marks_of_quotation_are_understood() -> None:
    module = parse(
        """// who
        a.ScramLoginModule REQUIRED
            username='al"ice' /* her
            password */ password="a\\"b\\\\c;=d // e"
            tokenauth=true;
        """
    )
    assert module.options == {"username": 'al"ice', "password": 'a"b\\c;=d // e', "tokenauth": "true"}


def test_an_empty_value_and_a_user_named_by_an_option_are_kept() -> None:
    assert parse('a.Plain required user_a="" user_b-c=";" user_d="=";').options == {"user_a": "", "user_b-c": ";", "user_d": "="}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "does not end with a semicolon"),
        ('a.Plain required password="hidden"', "does not end with a semicolon"),
        ('a.Plain username="x" password="hidden";', "has no word required"),
        ('a.Plain required password "hidden";', "has options that are not NAME"),
        ('a.Plain required password="hidden" x;', "has options that are not NAME"),
        ('a.Plain required password="hidden;', "a quotation mark that is not closed"),
        ('a.Plain required password="hidden"; b.Plain required;', "names several login modules"),
    ],
)
def test_text_that_is_none_is_told_without_its_values(text: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence) as refused:
        parse(text)
    assert "hidden" not in str(refused.value)


def test_a_password_is_in_no_text_that_shows_a_module() -> None:
    assert "hidden" not in repr(parse('a.Plain required password="hidden";'))
