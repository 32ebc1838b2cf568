import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdcode.printable import is_safe, shown


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("king", "king"),
        ("new york", "new york"),
        ("naïve 日本 ☃ ❤️", "naïve 日本 ☃ ❤️"),
        ("a\nb\tc\0", "a\\nb\\tc\\x00"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("\x9b31mred", "\\x9b31mred"),
        ("\u202eevil", "\\u202eevil"),
        ("no\xa0break", "no\\xa0break"),
        ("\U000e0041\U000e0100", "\\U000e0041\\U000e0100"),
        ("name\udcff", "name\\udcff"),
        ('it\'s \\n "quoted"', 'it\'s \\n "quoted"'),
    ],
)
def test_what_could_steer_a_terminal_is_escaped(text, escaped):
    assert shown(text) == escaped
    assert is_safe(text) == (text == escaped)


def test_every_character():
    unsafe = {"Cc", "Cf", "Cs", "Zl", "Zp"}
    for character in map(chr, range(sys.maxunicode + 1)):
        if unicodedata.category(character) in unsafe or "\U000e0000" <= character <= "\U000e0fff":
            assert shown(character).isascii(), hex(ord(character))
            assert len(shown(character)) > 1
        elif unicodedata.category(character)[0] in "LMNPS":
            assert shown(character) == character


@given(st.text())
def test_twice_is_the_same_as_once(text):
    assert shown(shown(text)) == shown(text)
