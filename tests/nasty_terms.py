"""Terms on which implementations of SPARQL's functions tend to differ, and a strategy for more of them."""

# ruff: noqa: E501

from __future__ import annotations

import pyoxigraph as ox
from hypothesis import strategies as st

XSD = "http://www.w3.org/2001/XMLSchema#"
Term = ox.NamedNode | ox.BlankNode | ox.Literal

_FORMS: dict[str, tuple[str, ...]] = {
    "integer": (
        "0", "1", "-1", "01", "+1", "-0", "42", "100", "999999999999999999", "1000000000000000000",
        "9223372036854775807", "-9223372036854775808", "9223372036854775808", "123456789012345678901234567890",
        "4294967296", "3037000500", "1.0", "", " 1", "abc", "1e3",
    ),
    "decimal": (
        "0", "0.0", "-0.0", "1", "1.0", "1.00", "+1.50", "-1.5", "10.50", "10.5", ".5", "5.", "0.1", "0.2", "0.3",
        "0.000000000000000001", "0.0000000000000000001", "999999999999999999.999999999999999999",
        "9223372036854775807.5", "-9223372036854775808.5", "123456789012345678901234567890.1", "100", "-100",
        "12345678901234.56789", "1e3", "NaN", "",
    ),
    "double": (
        "0", "-0.0", "1", "1.0", "1e0", "1.5E0", "-1.5", "0.1", "1e300", "1e308", "-1e308", "1e400", "5e-324",
        "INF", "-INF", "+INF", "NaN", "100", "9007199254740993", "9223372036854775808", "1.", ".5", "inf", "",
    ),
    "float": ("0", "1", "-0.0", "1.5", "0.1", "16777217", "3.5e38", "1e-50", "NaN", "INF", "-INF", "100", "x"),
    "boolean": ("true", "false", "1", "0", "TRUE", ""),
    "dateTime": (
        "2020-01-01T00:00:00", "2020-01-01T00:00:00Z", "2020-01-01T14:00:00+14:00", "2020-01-01T00:00:00.5Z",
        "2020-01-01T00:00:00.5000000", "2020-01-01T00:00:00.1234567Z", "2019-12-31T24:00:00", "2020-02-29T12:30:45",
        "2021-02-29T12:30:45", "-0044-03-15T00:00:00Z", "0000-01-01T00:00:00Z", "12020-01-01T00:00:00Z",
        "99999999999999999-01-01T00:00:00Z", "2020-13-01T00:00:00Z", "2020-01-01T25:00:00Z", "2020-01-01",
        "2020-01-01T00:00:60Z", "2020-01-01T00:00:00+14:01", "2020-01-01T00:00:00-05:30", "2020-01-00T00:00:00",
    ),
    "date": ("2020-01-01", "2020-01-01Z", "2020-01-01+14:00", "2020-02-30", "2020-01-01T00:00:00", "12020-01-01"),
    "time": ("00:00:00", "24:00:00", "12:00:00Z", "12:00:00+01:00", "12:00"),
    "dayTimeDuration": ("PT1H", "PT60M", "P1D", "-P1D", "P1Y"),
    "yearMonthDuration": ("P1Y", "P12M"),
    "duration": ("P1Y", "P1M30D", "PT0S"),
    "byte": ("1", "127", "128", "-128", "01"),
    "int": ("1", "2147483648", "-5"),
    "unsignedLong": ("1", "18446744073709551615", "18446744073709551616", "-1"),
    "nonNegativeInteger": ("0", "1", "-1"),
    "negativeInteger": ("-1", "1"),
}  # fmt: skip

_STRINGS = (
    "",
    "a",
    "b",
    "ab",
    "a b",
    "A",
    "é",
    "𝄞",
    "￿",
    'say "hi"',
    "line\nend",
    "back\\slash",
    "1",
    "\x01",
    "~",
)

TERMS: tuple[Term, ...] = (
    *(
        ox.Literal(form, datatype=ox.NamedNode(XSD + name))
        for name, forms in _FORMS.items()
        for form in forms
    ),
    *(ox.Literal(text) for text in _STRINGS),
    *(ox.Literal(text, language="en") for text in _STRINGS),
    ox.Literal("a", language="de"),
    ox.Literal("a", language="en-US"),
    ox.Literal("", language="de"),
    ox.Literal("a", language="ar", direction=ox.BaseDirection.RTL),
    ox.Literal("x", datatype=ox.NamedNode("http://example.org/type")),
    ox.Literal("y", datatype=ox.NamedNode("http://example.org/type")),
    ox.NamedNode("http://example.org/a"),
    ox.NamedNode("http://example.org/b"),
    ox.NamedNode("http://example.org/é"),
    ox.BlankNode("b1"),
    ox.BlankNode("b2"),
)


def terms() -> st.SearchStrategy[Term]:
    """The nasty ones, and numbers, decimals, dates and strings at random."""
    integers = st.integers(-(2**70), 2**70).map(lambda n: _typed(str(n), "integer"))
    small = st.integers(-5, 5).map(lambda n: _typed(str(n), "integer"))
    decimals = st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-1000, max_value=1000)
    doubles = st.floats(width=64).map(lambda number: ox.Literal(number))
    moments = st.datetimes().map(lambda moment: _typed(moment.isoformat(), "dateTime"))
    texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=4).map(ox.Literal)
    return st.one_of(
        st.sampled_from(TERMS),
        integers,
        small,
        decimals.map(lambda number: _typed(str(number), "decimal")),
        doubles,
        moments,
        texts,
    )


def _typed(text: str, name: str) -> ox.Literal:
    return ox.Literal(text, datatype=ox.NamedNode(XSD + name))
