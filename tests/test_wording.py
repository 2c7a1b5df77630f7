"""Wording files: what every rule says is there, can be filled in, and decides nothing."""

from __future__ import annotations

import ast
import io
import json
import re
import string
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from benchmarks.golden.__main__ import GOLDEN, ROOT
from benchmarks.golden.differences import differences
from benchmarks.golden.inputs import own_inputs
from benchmarks.golden.write import answer, file_of
from gpuprof.diagnose.facts.attention import AttentionRole
from gpuprof.diagnose.registry import RULES
from gpuprof.diagnose.rule import Rule
from gpuprof.errors import DamagedInput
from gpuprof.model.findings import Amount, Cases, Label
from gpuprof.model.occupancy import LIMITERS
from gpuprof.model.session import Finding
from gpuprof.review.registry import CODE_RULES, FILE_RULES
from gpuprof.sass.patterns.lane_shapes import ShapeName
from gpuprof.store.read import read_session
from gpuprof.store.write import session_bytes
from gpuprof.views.profile import print_session, session_page
from gpuprof.words import wording as wording_files
from gpuprof.words.findings import cause_phrase, common_headline, threshold_text, with_sentences
from gpuprof.words.wording import FOLDER, AmountText, NameText, Wording, joined, wording, written
from tests import hand_made
from tests.table import each_row
from tests.worded import summarised

FILES = sorted(FOLDER.glob("*.yaml"))
CODE_RULES_FOLDER = FOLDER.parent.parent / "review"
SECTIONS = ("headline", "sentence", "why", "action", "advice", "evidence")
CASES = ("headline", "why", "action", "advice")
BESIDE_RULES = ("shared", "kinds", "answers")


class UniqueKeys(yaml.SafeLoader):
    """A loader that refuses a key that stands twice: the second would hide the first."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key) for key, _ in node.value if key.tag != "tag:yaml.org,2002:merge"]
        assert len(keys) == len(set(keys)), f"{node.start_mark}: a key stands twice"
        return super().construct_mapping(node, deep)


def templates(known: Wording) -> Iterator[str]:
    for section in SECTIONS:
        yield from getattr(known, section).values()
    yield from known.cause.values() if isinstance(known.cause, dict) else (known.cause,)


class AnyValue(Mapping[str, object]):
    """Values for every placeholder, whatever it is called: an amount for a format of numbers, else a label."""

    def __init__(self, text: str) -> None:
        self._specs = {name: spec for _, name, spec, _ in string.Formatter().parse(text) if name is not None}

    def __getitem__(self, name: str) -> object:
        named = self._specs[name] in ("pipe", "stall", "stall-state", "unit") or name == "of"
        return NameText(("l1",)) if named else AmountText(Amount(name, 0.5, "fraction"))

    def __iter__(self) -> Iterator[str]:
        return iter(self._specs)

    def __len__(self) -> int:
        return len(self._specs)


@each_row("name", [file.stem for file in FILES])
def test_a_wording_file_has_each_key_once_and_every_sentence_can_be_filled_in(name: str) -> None:
    yaml.load((FOLDER / f"{name}.yaml").read_text(encoding="utf-8"), UniqueKeys)
    for text in templates(wording(name)):
        filled = text.format_map(AnyValue(text))
        assert "{" not in filled and "  " not in filled and filled == filled.strip()


def pattern(node: ast.expr) -> Iterator[str]:
    """A string in code as a regular expression: what is filled in or added to it matches anything."""
    if isinstance(node, ast.JoinedStr):
        text = "".join(re.escape(str(part.value)) if isinstance(part, ast.Constant) else ".+" for part in node.values)
        if re.search("[a-z]{2}", text):
            yield text
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        before = ".+" if node.value.startswith("-") else ""
        after = ".+" if node.value.endswith("-") else ""
        yield f"{before}{re.escape(node.value)}{after}"


def names_in_rules() -> Iterator[str]:
    """Every string and every name of an argument in the code of the rules."""
    for file in (*FOLDER.parent.rglob("*.py"), *CODE_RULES_FOLDER.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.keyword) and node.arg is not None:
                yield node.arg
            elif isinstance(node, ast.expr):
                yield from pattern(node)


OF_VALUES = (*LIMITERS, *get_args(ShapeName), *get_args(AttentionRole), "(if|or)-(bf16|fp16)")
"""Cases that are made of a value alone."""
IN_RULES = re.compile("|".join(sorted({text for text in names_in_rules() if re.search("[a-z]", text)} | {*OF_VALUES})))


@each_row("name", [file.stem for file in FILES])
def test_every_placeholder_is_a_value_that_a_rule_gives_and_every_case_is_one_that_a_rule_chooses(name: str) -> None:
    known = wording(name)
    for text in templates(known):
        for _, placeholder, _, _ in string.Formatter().parse(text):
            is_given = placeholder in (None, "of", "kernel", "file") or IN_RULES.fullmatch(placeholder)
            assert is_given, f"{name}.yaml: no rule gives {placeholder!r}"
    for section in SECTIONS:
        for case in getattr(known, section):
            spelled = (case, f"{name}/{case}", case.replace("-", "_"), case.replace("-", " "))
            is_chosen = any(map(IN_RULES.fullmatch, spelled))
            assert is_chosen, f"{name}.yaml, {section}: no rule chooses {case!r}"


@each_row("rule", RULES)
def test_a_rule_has_a_wording_file_with_its_reference_its_sentences_and_its_thresholds(rule: Rule) -> None:
    known = wording(rule.id)
    assert known.title and known.inputs and known.gain and known.limitations
    assert known.headline
    assert known.cause if isinstance(known.cause, str) else set(known.cause) & {*known.headline, "main"}
    for threshold in rule.thresholds:
        text = threshold_text(threshold, rule.id)
        assert text.name and text.reason


def test_every_wording_file_belongs_to_a_rule_or_is_shared() -> None:
    of_code = {rule.id for rule in CODE_RULES} | {rule.id for rule in FILE_RULES}
    assert {file.stem for file in FILES} == {rule.id for rule in RULES} | of_code | set(BESIDE_RULES)


def made(*values: float, case: str = "main", kernel: int = 0) -> Finding:
    return Finding(
        rule="short-kernel", severity="high", confidence="measured", evidence=(), place=None,
        gain_kernel=0.5, gain_total=0.5, id=f"{kernel}.short-kernel", cases=Cases(headline=(case,)),
        amounts=tuple(Amount("x", value, "fraction") for value in values), labels=(Label("y", ("a",)),),
    )  # fmt: skip


@pytest.fixture
def small_wording(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """The wording of one rule, written by hand."""
    text = {
        "title": "Title", "cause": "short kernel",
        "headline": {"main": "Short: {x} of {y}", "other": "Other {x}"}, "why": {"main": "Because."},
        "action": {"main": "Change it"}, "advice": {"main": "Change it by hand."},
    }  # fmt: skip
    (tmp_path / "short-kernel.yaml").write_text(yaml.safe_dump(text), encoding="utf-8")
    monkeypatch.setattr(wording_files, "FOLDER", tmp_path)
    wording.cache_clear()
    yield
    wording.cache_clear()


@pytest.mark.usefixtures("small_wording")
def test_findings_of_several_kernels_have_one_headline_with_ranges_of_what_differs() -> None:
    one, two = with_sentences(made(0.02)), with_sentences(made(0.52))
    assert (one.headline, one.why, one.advice) == ("Short: 2.0 % of a", "Because.", "Change it by hand.")
    assert common_headline([one, two]) == "Short: 2.0 to 52 % of a"
    assert common_headline([one, one]) == one.headline
    assert common_headline([one, with_sentences(made(0.5, case="other"))]) == "Short kernel"
    # A finding of another version, whose case is not known, keeps the sentence that its file has.
    foreign = made(0.5, case="gone")
    saved = Finding(**{name: getattr(foreign, name) for name in foreign.__struct_fields__} | {"headline": "As saved"})
    assert with_sentences(saved).headline == "As saved" and cause_phrase(saved) == "short kernel"


def test_amounts_are_written_by_unit_and_parts_are_joined() -> None:
    assert written(Amount("x", 0.125, "fraction")) == "12 %"
    assert written(Amount("x", 2.5e12, "B/s")) == "2.50 TB/s"
    assert written(Amount("x", 1.0, "cycle"), "count") == "1 cycle"
    assert written(Amount("x", 12.0, "cycle"), "count") == "12 cycles"
    assert written(Amount("x", 3.14159), ".3g") == "3.14"
    assert joined(["One", ", two", "; three", "four."]) == "One, two; three four."


NAMES = st.sampled_from(["main", "near", "counted", "nope", "kinds/for-kind", "shared/gpu", "nope/nope"])
KEYS = st.sampled_from(["busy", "rate", "x", "alike", "kind", "waited", "of"])
FOREIGN = st.fixed_dictionaries(
    {
        "rule": st.sampled_from([*(rule.id for rule in RULES), "of-another-version"]),
        "cases": st.fixed_dictionaries({}, optional={key: st.lists(NAMES, max_size=3) for key in CASES}),
        "amounts": st.lists(st.builds(lambda name, value: {"name": name, "value": value, "unit": "B/s"}, KEYS,
                                      st.sampled_from([0.0, 1.5, 1e30])), max_size=4),
        "labels": st.lists(st.builds(lambda name: {"name": name, "texts": ["l1", "\u202eevil"]}, KEYS), max_size=3),
        "assumes": st.lists(NAMES, max_size=2),
    }
)  # fmt: skip
VERDICTS = st.fixed_dictionaries(
    {
        "case": st.sampled_from(["counted", "finding", "limit", "busiest", "at-roof", "nope", None]),
        "subject": st.sampled_from(["dram", "fp32", "nope", None]),
        "fraction": st.sampled_from([0.0, 0.7, 1e30, None]),
        "bound": st.sampled_from(["at-least", "at-most", None]),
        "cause": st.sampled_from(["0.tail-effect", "nope", None]),
        "run_finding": st.sampled_from(["0.tail-effect", "nope", None]),
        "state": st.sampled_from(["limited", "set-up", "open", "at-roof"]),
    }
)


@given(FOREIGN, VERDICTS)
def test_a_session_of_another_version_shows_the_text_that_it_has(changes: Any, verdict: Any) -> None:
    whole = json.loads(session_bytes(hand_made.session(hand_made.kernel(0, hand_made.finding("tail-effect")))))
    finding = whole["kernels"][0]["findings"][0]
    finding |= {**changes, "id": "0.tail-effect"}
    whole["verdict"] |= verdict
    read = read_session(json.dumps(whole), "s.json")
    for judged in (read, summarised(read)):
        screen = io.StringIO()
        print_session(Console(file=screen, width=100), judged, judged.kernels, top=None, depth="all")
        assert finding["headline"] in screen.getvalue() and session_page(judged)


@each_row(
    ("place", "what"), [(("kernels", 0, "findings", 0, "headline"), "headline"), (("verdict", "sentence"), "sentence")]
)
def test_a_finding_or_a_verdict_without_its_text_is_damage(place: tuple[Any, ...], what: str) -> None:
    whole = json.loads(session_bytes(hand_made.session(hand_made.kernel(0, hand_made.finding("tail-effect")))))
    record: Any = whole
    for name in place[:-1]:
        record = record[name]
    record[place[-1]] = ""
    with pytest.raises(DamagedInput, match=f"has no {what}"):
        read_session(json.dumps(whole), "s.json")


def reworded(value: object) -> object:
    if isinstance(value, dict):
        return {key: reworded(part) for key, part in value.items()}
    return f"Reworded {value}"


@pytest.mark.slow
def test_no_answer_depends_on_a_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With every sentence of every wording file changed, all golden values stay."""
    for file in FILES:
        text = yaml.safe_load(file.read_text(encoding="utf-8"))
        (tmp_path / file.name).write_text(yaml.safe_dump(reworded(text)), encoding="utf-8")
    monkeypatch.setattr(wording_files, "FOLDER", tmp_path)
    wording.cache_clear()
    try:
        for question in own_inputs(ROOT):
            if question.kind != "check":
                expected = json.loads(file_of(GOLDEN, question.name).read_text(encoding="utf-8"))
                assert differences(expected, answer(question)) == [], question.name
    finally:
        wording.cache_clear()
