"""Templates and data: nothing that comes from a table becomes markup."""

import base64
import hashlib
import json
import re
from importlib.resources import files

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdcode.report.embedded import json_text, packed_array, small_numbers
from kdcode.report.templates import Html, asset, filled, filled_each

ASSETS = files("kdcode.report") / "assets"


def test_what_is_filled_in_is_escaped():
    made = filled("parts/symbol", text="</bdi><script>alert(\"1\" & '2')</script>")
    assert made == (
        '<bdi class="symbol">&lt;/bdi&gt;&lt;script&gt;alert(&quot;1&quot; &amp; &#x27;2&#x27;)&lt;/script&gt;</bdi>'
    )


def test_what_came_out_of_a_template_goes_in_as_it_is():
    inner = filled("parts/symbol", text="a<b")
    row = filled("parts/worst_row", symbol=inner, row="1", cosine="0", error="<2")
    assert '<th scope="row"><bdi class="symbol">a&lt;b</bdi></th>' in row
    assert "&lt;2" in row
    assert isinstance(row, Html)
    each = filled_each("parts/cell", [{"text": "<"}, {"text": 3}])
    assert each == '<td class="number">&lt;</td><td class="number">3</td>'


def test_a_dollar_in_a_value_is_no_name():
    assert "$data" in filled("parts/sentence", text="$data ${data}")


def test_a_value_that_is_missing_is_an_error():
    with pytest.raises(KeyError, match="text"):
        filled("parts/sentence")


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


@given(JSON)
def test_json_in_a_script_says_the_same_and_cannot_end_it(value):
    text = json_text(value)
    assert json.loads(text) == value
    assert not set("<>&\u2028\u2029") & set(text)
    assert text.isascii()


def test_json_in_a_script_by_hand():
    assert json_text({"a": "</script><!--"}) == '{"a":"\\u003c/script\\u003e\\u003c!--"}'
    assert json_text([float("nan"), {"b": (float("inf"), 1.5)}]) == '[null,{"b":[null,1.5]}]'


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "uint32", "float32"])
def test_arrays_are_little_endian_bytes(dtype):
    numbers = np.array([[1, 2], [3, 100]], dtype=dtype)
    packed = packed_array(numbers.astype(numbers.dtype.newbyteorder(">")))
    assert packed["type"] == dtype
    assert base64.b64decode(packed["data"]) == numbers.astype(f"<{numbers.dtype.str[1:]}").tobytes()


def test_row_numbers_take_two_bytes_where_two_do():
    assert small_numbers(np.array([0, 65535]), 65536).dtype == np.uint16
    assert small_numbers(np.array([0, 65536]), 65537).dtype == np.uint32


def test_files_of_others_are_those_that_their_table_names():
    listed = re.findall(r"\| `([^`]+\.js)` \|.*?\| ([\d,]+) \| `([0-9a-f]{64})` \|", asset("vendor/README.md"))
    assert {name for name, _, _ in listed} == {
        path.name for path in (ASSETS / "vendor").iterdir() if path.name.endswith(".js")
    }
    for name, size, digest in listed:
        content = (ASSETS / "vendor" / name).read_bytes()
        assert len(content) == int(size.replace(",", ""))
        assert hashlib.sha256(content).hexdigest() == digest


@pytest.mark.parametrize("name", [f"scripts/{path.name}" for path in (ASSETS / "scripts").iterdir()])
def test_our_scripts_never_make_markup_of_text_nor_reach_out(name):
    code = asset(name)
    for forbidden in (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "fetch(",
        "XMLHttp",
        "http",
    ):
        assert forbidden not in code
    assert len(code.splitlines()) <= 350
