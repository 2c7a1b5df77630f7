"""What machines and pull requests read of a review: every format, with hostile names and numbers that are none."""

from __future__ import annotations

import json
import re
import unicodedata
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct, structs

from gpuprof.review.contract import Review
from gpuprof.store.schema import schema_text
from gpuprof.views.exports.json_documents import schema_of_review
from gpuprof.views.formats import formats_of
from gpuprof.views.options import WriteOptions
from tests import reviews as made
from tests.contracts import records_of, undescribed
from tests.formats import text_formats
from tests.outline import Outline
from tests.table import each_row
from tests.test_compare_formats import HOSTILE_TEXTS, ODD_NUMBERS

REFERENCE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "check.schema.json"
HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
ESCAPED_BY_JSON = {"json": {"Cn", "Co"}}
"""JSON is the review as it is: it escapes what steers a terminal, and leaves characters that are only unknown."""


def text_of(form: str, review: Review, top: int | None = None) -> str:
    return "\n".join(formats_of("review")[form].lines(review, WriteOptions(top)))


def many(number: int, **changes: Any) -> Review:
    kernels = [
        made.kernel(index, made.finding("rule", made.place(index + 1)), label=f"kernel_{index}", **changes)
        for index in range(number)
    ]
    return made.review(*kernels)


@each_row("text", HOSTILE_TEXTS.values(), ids=HOSTILE_TEXTS)
@each_row("form", text_formats("review"))
def test_no_text_of_a_file_steers_a_terminal_or_breaks_a_line(form: str, text: str) -> None:
    lines = list(formats_of("review")[form].lines(made.everything(text, text), WriteOptions()))
    assert lines
    if form == "junit":  # its output has lines of its own
        lines = "\n".join(lines).split("\n")
    for line in lines:
        assert not [c for c in line if unicodedata.category(c) in HIDDEN - ESCAPED_BY_JSON.get(form, set())]
    "\n".join(lines).encode("utf-8")


@each_row("text", HOSTILE_TEXTS.values(), ids=HOSTILE_TEXTS)
def test_no_text_of_a_file_is_markup_in_markdown(text: str) -> None:
    page = text_of("md", made.everything(text, text))
    ours = re.sub(r"</?details>|</?summary>|<!-- gpuprof-check -->", "", page)
    assert not re.search(r"(?<!\\)[<>`]", ours)
    assert not re.search(r"@(?!&#8203;)", ours)
    assert "://" not in ours and not re.search(r"www\.", ours)
    tables = re.findall(r"^\|.*\|$", page, re.MULTILINE)
    assert len({len(re.findall(r"(?<!\\)\|", row)) for row in tables}) == 1
    assert page.count("<details>") == page.count("</details>") == 2


@each_row("top", [None, 0])
def test_a_comment_is_short_enough_and_counts_what_it_leaves_out(top: int | None) -> None:
    page = text_of("md", many(1500), top)
    assert page.startswith("<!-- gpuprof-check -->\n") and len(page) <= 65_536
    numbered = re.findall(r"^[0-9]+\. ", page, re.MULTILINE)
    rest = re.search(r"And ([0-9]+) more\.|… and ([0-9]+) more findings", page.replace("\u202f", ""))
    assert rest is not None and len(numbered) + int(rest[1] or rest[2]) == 1500
    assert len(numbered) == 20 if top is None else len(numbered) > 100


@each_row("text", HOSTILE_TEXTS.values(), ids=HOSTILE_TEXTS)
def test_no_text_of_a_file_is_markup_in_html(text: str) -> None:
    plain, hostile = (Outline(text_of("html", review)) for review in (made.everything(), made.everything(text, text)))
    assert set(hostile.tags) - {"wbr"} == set(plain.tags) - {"wbr"}
    assert hostile.tags.count("script") == 1 and hostile.open == []
    assert not [name for _, name, _ in hostile.attributes if name.startswith("on")]


def with_numbers(value: Any, number: float) -> Any:
    """The value with another number for every floating-point one."""
    if isinstance(value, float):
        return number
    if isinstance(value, Struct):
        names = value.__struct_fields__
        return structs.replace(value, **{name: with_numbers(getattr(value, name), number) for name in names})
    return tuple(with_numbers(item, number) for item in value) if isinstance(value, tuple) else value


@each_row("number", ODD_NUMBERS)
def test_odd_numbers_are_valid_json(number: float) -> None:
    text = text_of("json", with_numbers(made.everything(), number))
    json.loads(text, parse_constant=lambda constant: pytest.fail(f"{constant} in JSON"))


# JSON


@pytest.fixture(scope="module")
def schema() -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(schema_of_review())


def test_json_is_the_review_and_valid_by_its_schema(schema: jsonschema.Draft202012Validator) -> None:
    review = made.everything()
    text = text_of("json", review)
    assert msgspec.json.decode(text, type=Review) == review
    schema.validate(json.loads(text))
    schema.validate(json.loads(text_of("json", made.review())))


def test_json_has_every_kernel_and_what_is_not_known_is_null() -> None:
    lines = text_of("json", many(5), 2).split("\n")
    assert sum(line.startswith('    {"id": ') for line in lines) == 5
    kernel = made.kernel(resources=made.resources(registers=None, spills=None), occupancy=None)
    document = json.loads(text_of("json", made.review(kernel)))["kernels"][0]
    assert document["resources"]["registers"] is None and document["resources"]["spills"] is None
    assert document["occupancy"] is None and document["grid"] is None
    assert document["accesses"][2]["sectors_per_request"] is None


def test_every_field_of_the_review_is_described() -> None:
    records = records_of("Review", schema_of_review())
    assert {"ReviewedKernel", "CodeAccess", "CodeLoop", "OccupancyStep"} <= set(records)
    assert undescribed(records) == []
    assert REFERENCE.read_text(encoding="utf-8") == schema_text(schema_of_review())


@given(text=st.text(), offset=st.integers(0, 2**40), sectors=st.none() | st.floats(0, 1e30))
def test_json_is_valid_whatever_a_file_says(
    schema: jsonschema.Draft202012Validator, text: str, offset: int, sectors: float | None
) -> None:
    access = made.access(opcode=text, offset=offset, sectors_per_request=sectors, unknown=text)
    document = json.loads(text_of("json", made.review(made.kernel(name=text, label=text, accesses=(access,)))))
    schema.validate(document)
