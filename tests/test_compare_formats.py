"""What machines and pull requests read of a comparison: every format, with hostile names and numbers that are none."""

from __future__ import annotations

import io
import json
import math
import re
import unicodedata
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import msgspec
import pytest
from msgspec import Struct, structs
from rich.console import Console

from gpuprof.comparison.compare import Compared
from gpuprof.comparison.contract import (
    Comparison,
    Interval,
    QuantityChange,
    TimeDoubt,
    TimeWord,
    WorkChange,
    figures_to_show,
)
from gpuprof.store.schema import schema_text
from gpuprof.views.comparison import print_comparison
from gpuprof.views.exports.json_documents import schema_of_comparison
from gpuprof.views.formats import formats_of
from gpuprof.views.options import WriteOptions
from tests import made_comparisons as made
from tests.contracts import records_of, undescribed
from tests.formats import text_formats
from tests.hand_made import HOSTILE
from tests.table import each_row

REFERENCE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "comparison.schema.json"
FORMATS = text_formats("comparison")
OPTIONS = WriteOptions(root=made.ROOT)
MOST_CHARACTERS = 65_536
"""What GitHub takes as a comment."""
HOSTILE_TEXTS = {
    "markup": HOSTILE,
    "control": "".join(map(chr, (*range(32), *range(127, 160), 0x200B, 0x202E, 0xFEFF, 0xFFFE, 0xE000))),
    "surrogate": "a\ud800b\udfff",
    "long": "k" * 15_000,
    "commands": "::error::x\r\n::set-output name=a::b%0A##[set-env]",
    "xml": "]]></system-out><!-- & \"'",
    "sarif": "[a](http://x.example) {0} %20",
    "table": "a | b\n|---|\n</details>",
    "mention": "@someone www.x.example #1",
}


def text_of(form: str, compared: Compared, options: WriteOptions = OPTIONS) -> str:
    return "\n".join(formats_of("comparison")[form].lines(compared, options))


@each_row("text", HOSTILE_TEXTS.values(), ids=HOSTILE_TEXTS)
def test_no_text_of_a_report_steers_a_terminal_breaks_a_line_or_is_markup(text: str) -> None:
    written = made.everything(text, text)
    hidden = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
    for form in FORMATS:
        lines = list(formats_of("comparison")[form].lines(written, OPTIONS))
        # JSON is the comparison as it is: it escapes what steers a terminal, and leaves characters that are only
        # unknown. Details of JUnit are several lines of text in one element.
        steering = hidden - {"Cn", "Co"} if form == "json" else hidden
        for line in lines:
            plain = line.replace("\n", "") if form == "junit" else line
            assert not [char for char in plain if unicodedata.category(char) in steering], form
        "\n".join(lines).encode("utf-8")
    for form in ("json", "sarif", "gitlab"):
        json.loads(text_of(form, written))
    assert {element.tag for element in ElementTree.fromstring(text_of("junit", written).encode()).iter()} == {
        "testsuites", "testsuite", "properties", "property", "testcase", "failure", "skipped", "system-out",
    }  # fmt: skip
    commands = text_of("github", written).split("\n")
    assert [line[: line.index(" ")] for line in commands] == ["::error", "::warning", "::notice"]
    for line in commands:
        assert re.fullmatch(r"::(error|warning|notice) (file=[^:,]*,line=\d+,)?title=[^:,]*::.*", line)
    page = text_of("md", written)
    titles = "".join(re.findall(r"<summary>(.*?)</summary>", page))
    assert not re.search("[<>]", titles)
    ours = re.sub(r"</?details>|<summary>.*?</summary>|<!-- gpuprof-compare -->", "", page)
    assert not re.search(r"(?<!\\)[<>`]", ours)
    assert not re.search(r"@(?!&#8203;)", ours)
    assert "://" not in ours and not re.search(r"www\.", ours)
    tables = re.findall(r"^\|.*\|$", page, re.MULTILINE)
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in tables} == {11, 7, 4}
    assert page.count("<details>") == page.count("</details>") > 0


ODD_NUMBERS = (math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324, -0.0)
"""Numbers that no comparison should have."""


def with_numbers(value: Any, number: float) -> Any:
    if isinstance(value, float):
        return number
    if isinstance(value, Struct):
        return structs.replace(
            value, **{name: with_numbers(getattr(value, name), number) for name in value.__struct_fields__}
        )
    return tuple(with_numbers(item, number) for item in value) if isinstance(value, tuple) else value


@each_row("number", ODD_NUMBERS)
@each_row("form", FORMATS)
def test_odd_numbers_are_written_and_never_as_numbers_that_they_are_not(form: str, number: float) -> None:
    compared = made.everything()
    odd = Compared(with_numbers(compared.comparison, number), compared.pairs, compared.base, new=compared.new)
    text = text_of(form, odd)
    if form in ("json", "sarif", "gitlab"):
        json.loads(text, parse_constant=lambda constant: pytest.fail(f"{constant} in {form}"))
    if form == "junit":
        times = [case.get("time") for case in ElementTree.fromstring(text.encode()).iter("testcase")]
        assert all(time is None or re.fullmatch(r"-?\d+\.\d+", time) for time in times)
    assert not re.search(r"\b(nan|inf)\b", text)


@pytest.fixture(scope="module")
def schema() -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(schema_of_comparison())


def test_json_is_the_comparison_and_valid_by_its_schema(schema: jsonschema.Draft202012Validator) -> None:
    compared = made.everything()
    text = text_of("json", compared)
    assert msgspec.json.decode(text, type=Comparison) == compared.comparison
    schema.validate(json.loads(text))
    schema.validate(json.loads(text_of("json", made.compared())))


def test_the_schema_of_the_reference_describes_every_field_of_the_types() -> None:
    assert REFERENCE.read_text(encoding="utf-8") == schema_text(schema_of_comparison())
    records = records_of("Comparison", schema_of_comparison())
    assert {"KernelChange", "CountChange", "GateCheck", "Interval"} <= set(records)
    assert undescribed(records) == []


def test_a_number_that_is_not_finite_is_missing_with_a_note_and_its_record_where_it_cannot_be(
    schema: jsonschema.Draft202012Validator,
) -> None:
    time = structs.replace(made.time(), ratio=math.nan, interval=Interval(math.inf, 1.0))
    counts = (made.count(), made.count("registers", 40.0, 72.0, tolerance=math.nan))
    work = WorkChange(verdict="more", counts=counts)
    document = json.loads(text_of("json", made.compared(made.change(time=time, work=work))))
    schema.validate(document)
    kernel = document["kernels"][0]
    assert kernel["time"]["ratio"] is None and kernel["time"]["interval"] is None
    assert kernel["time"]["base_s"] == 1e-3
    assert [count["name"] for count in kernel["work"]["counts"]] == ["instructions"]
    assert re.findall(r"kernels\[0\][\w.\[\]]+\w", document["notes"][0]) == [
        "kernels[0].time.ratio", "kernels[0].time.interval.low", "kernels[0].work.counts[1].tolerance"
    ]  # fmt: skip


def test_the_comment_fits_whatever_the_texts_are() -> None:
    for text in ("@" * 15_000, "<" * 15_000, "@ " * 7_000, "k" * 15_000):
        whole = made.everything(text, text)
        compared = made.compared(
            *(structs.replace(whole.comparison.kernels[0], id=number) for number in range(50)),
            gate=made.gate(*(made.check(kernel=number, limit=text, sentence=text) for number in range(50))),
            sentence=text, conditions=(made.condition(name="gpu", base=text, new=text, sentence=text),) * 50,
            base=made.side(*[text] * 50, gpus=(text,) * 50), notes=(text,) * 50,
        )  # fmt: skip
        assert len(text_of("md", compared)) <= MOST_CHARACTERS


def test_terminal_and_comment_have_the_step_and_the_figures_of_the_run_that_both_sides_have_and_that_differ() -> None:
    values = {
        "gpu-time": (1.0, 2.0), "copies": (0.0, 0.0), "idle": (0.0, 0.5), "step": (4.25, 4.25), "span": (8.5, 8.5),
        "busy": (None, 3.25), "launches": (7.0, 9.0),
    }  # fmt: skip
    total = tuple(
        QuantityChange(
            name=name, unit="s", base=base, new=new, ratio=new / base if base and new else None, verdict="unknown"
        )
        for name, (base, new) in values.items()
    )
    assert [figure.name for figure in figures_to_show(total)] == ["idle", "step", "launches"]
    comment = text_of("md", made.compared(made.change(), total=total))
    terminal = io.StringIO()
    print_comparison(Console(width=100, file=terminal), made.compared(made.change(), total=total))
    for text in (comment, terminal.getvalue()):
        assert [name for name in values if name in text] == ["idle", "step", "launches"]


def test_files_are_named_without_their_folders() -> None:
    compared = made.compared(made.change(), base=made.side("/home/me/secret/base.ncu-rep"))
    for form in ("md", "junit"):
        assert "base.ncu-rep" in text_of(form, compared) and "secret" not in text_of(form, compared)


def suite(compared: Compared) -> ElementTree.Element:
    root = ElementTree.fromstring(text_of("junit", compared).encode())
    (only,) = root
    for element in (root, only):
        assert element.get("tests") == str(len(root.findall(".//testcase")))
        assert element.get("failures") == str(len(root.findall(".//failure")))
        assert element.get("errors") == "0"
    assert only.get("skipped") == str(len(root.findall(".//skipped")))
    return only


def results(element: ElementTree.Element) -> dict[str, tuple[str, str]]:
    every = {}
    for case in element.iter("testcase"):
        result = next((part for part in case if part.tag in ("failure", "skipped")), None)
        every[case.get("name", "")] = (result.tag, result.get("message", "")) if result is not None else ("passed", "")
    return every


def test_junit_has_a_test_case_per_limit_that_does_not_hold_and_per_kernel_whose_limits_do() -> None:
    checks = (
        made.check(kernel=0),
        made.check("unclear", 1, "instructions:1%", sentence="too noisy"),
        made.check("accepted", 2, accepted="known since May"),
        made.check("not-compared", None, "total-time:2%", sentence="no durations"),
    )
    kernels = [made.change(number, name, "same") for number, name in enumerate("abcd")]
    element = suite(made.compared(*kernels, made.change(4, "e", "new"), gate=made.gate(*checks, ok=2)))
    told = results(element)
    assert [(name, result) for name, (result, _) in told.items()] == [
        ("a: time:3%", "failure"), ("b: instructions:1%", "skipped"), ("c: time:3%", "skipped"),
        ("the whole run: total-time:2%", "skipped"), ("d: all limits", "passed"),
    ]  # fmt: skip
    assert "18 %" in told["a: time:3%"][1] and "known since May" in told["c: time:3%"][1]
    properties = {item.get("name"): item.get("value") for item in element.iter("property")}
    assert properties["base"] == "base.ncu-rep" and "2" in properties.values()
    gate = made.gate(made.check("unclear", 0), exit_code=7)
    assert results(suite(made.compared(made.change(0, "a", "unclear"), gate=gate)))["a: time:3%"][0] == "failure"


def test_junit_without_limits_has_a_test_case_per_kernel() -> None:
    verdicts: tuple[TimeWord, ...] = ("slower", "faster", "same", "unclear", "unknown", "new", "gone")
    kernels = [made.change(number, word, word) for number, word in enumerate(verdicts)]
    told = {name: result for name, (result, _) in results(suite(made.compared(*kernels))).items()}
    assert told == {
        "slower": "failure", "faster": "passed", "same": "passed", "unclear": "skipped", "unknown": "skipped",
        "new": "skipped", "gone": "skipped",
    }  # fmt: skip
    (case,) = suite(made.compared(made.change(), gate=made.gate(made.check()))).iter("testcase")
    assert set(case.keys()) == {"classname", "name", "time"} and case.get("time") == "0.001180000"
    assert {child.tag for child in case} == {"failure", "system-out"}
    time = made.time("unclear", 1.0, doubt=TimeDoubt(kind="noise"), runs_needed=8)
    skipped = results(suite(made.compared(made.change(0, "a", "unclear", time=time))))["a"]
    assert skipped == ("skipped", "too noisy for the number of runs; 8 runs per side would settle it.")


def test_an_annotation_is_at_its_line_and_escapes_what_ends_a_property() -> None:
    compared = made.compared(made.change(label="a,b::c"), gate=made.gate(made.check()))
    first = text_of("github", compared).split("\n")[0]
    assert first.startswith("::error file=src/gather.cu,line=88,title=a%2Cb%3A%3Ac%3A regression of time%3A3%25::")
    assert "18 %25, 3 %25" in first and first.endswith("registers 40 → 72.")
    assert text_of("github", compared, WriteOptions()).startswith("::error title="), "no root"
    gate = made.gate(made.check("accepted", accepted="known since May"))
    lines = text_of("github", made.compared(made.change(findings=()), gate=gate)).split("\n")
    assert len(lines) == 1 and "1 accepted" in lines[0]


def test_gitlab_gets_what_it_needs_of_each_entry() -> None:
    entries = json.loads(text_of("gitlab", made.compared(made.change(), gate=made.gate(made.check()))))
    assert [entry["location"] for entry in entries] == [
        {"path": "src/gather.cu", "lines": {"begin": 88}},
        {"path": "src/gather.cu", "lines": {"begin": 41}},
    ]
    assert [entry["severity"] for entry in entries] == ["critical", "major"]
    assert [entry["check_name"] for entry in entries] == ["gate-regression", "uncoalesced-global"]
    assert all(set(entry) == {"description", "check_name", "fingerprint", "severity", "location"} for entry in entries)
