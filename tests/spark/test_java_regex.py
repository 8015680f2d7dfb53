"""Patterns of topics find what Java's own regular expressions find."""

from __future__ import annotations

import re
from typing import Any

from ottla.spark.java_patterns import NotJava, translate

PATTERNS = r"""
flights.* \p{Lower}+ \p{Upper}\p{Lower}* \p{javaUpperCase}.* \p{IsAlphabetic}+ \p{Alnum}+ \p{Punct}+ [\p{L}&&[^a-m]]+
\P{Lower}+ \p{L}\d+ \p{Lu}\p{Ll}+ \p{IsL}+ \p{IsLatin}+ \p{script=Latin}+ \p{InBasicLatin}+ \p{gc=Nd}+ \pL+ \PL+ \p{Pd}+
\p{Pc}.* \p{Po} \p{XDigit}+ [a-d[x-z]]+ [a-z&&[^aeiou]]+ [^a-z&&[^A-F]]+ [^a-b[c-d]]+ []a]+ [^]a]+ [a-]+ [-a]+ [a\-z]+
[\w&&[^_]]+ [a-z&&b-e&&c-z]+ [\Qa-c\E]+ \Qa.b\E+ \Qa.b+ a\.b a.b a.{1,2} a.{2,}? (a|b)+c a++b a*+a (?>a|ab)c (?:ab)+
(?i)FLIGHTS (?i:f)lights f(?i)LIGHTS|X (?i)[^f].* (?-i)a (?i)\p{Lower}+ (?i)[^\p{Lower}]+ (?i)\P{Lower}+ (a)(b)?\1 (a|b)\1
(?<x>[ab])\k<x> (?i)(a)\1 \x61+ \u0061+ \0141+ \x{61}+ \N{LATIN|SMALL|LETTER|A} (a)\2 (a\1) (?=a).* (?!a).* .*(?<=s) .*(?<!s)
^a$ \Aab\z \bab\b ab\B \Gab .*\R \X+ \h+ \s* \S+ \W+ \D+ \v? x|y| |a (|a)b (?x)a(?-x)b a** *a +a ( a) [ ] a] a{ a{,2} [z-a] []
\y \p{Klingon} \p{lower} (?P<n>a) (?z)a \k<n> \x6 [a-\d] a\ (?<1>a) (?<n>a)(?<n>b)
"""
SLIPS = ("a{2}{3}", "{1}", "[a&&]")
"""Java reads something into these that their writers did not mean."""
NAMES = """
flights Flights FLIGHTS flights-2013 flights.log f a b c d x aa ab abc aab aaa aba bb ABc aB Ab a.b a.bb a-b a_b axb - _ . ..
-- _-. 7 42 a1 A7 abcdef uvw xyz XYZ 0x1F cafe ab.ab s ss as sa acd bcd aabc a-z m n mn nm
"""


def found_here(pattern: str) -> set[str] | str:
    try:
        return {name for name in NAMES.split() if re.fullmatch(translate(pattern), name)}
    except NotJava:
        return "refused"


def found_by_java(spark: Any, pattern: str) -> set[str] | str:
    java = spark.sparkContext._jvm.java.util.regex.Pattern
    try:
        compiled = java.compile(pattern)
    except Exception:  # as Py4J hands over a PatternSyntaxException
        return "refused"
    return {name for name in NAMES.split() if compiled.matcher(name).matches()}


def test_patterns_find_what_java_finds_and_refuse_what_java_refuses(spark: Any) -> None:
    patterns = [each.replace("LATIN|SMALL|LETTER|A", "LATIN SMALL LETTER A") for each in PATTERNS.split()]
    here = {each: found_here(each) for each in patterns}
    there = {each: found_by_java(spark, each) for each in patterns}
    assert {each: (here[each], there[each]) for each in patterns if here[each] != there[each]} == {}


def test_what_java_takes_by_a_slip_is_refused() -> None:
    assert [found_here(each) for each in SLIPS] == ["refused"] * len(SLIPS)
