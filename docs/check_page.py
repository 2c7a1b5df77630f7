"""The reference of a review: every object of its JSON, with the type and the meaning of each field; its rules."""

from __future__ import annotations

from collections.abc import Iterator

from session_page import contract_page

from gpuprof.diagnose.rule import Rule
from gpuprof.review.registry import CODE_RULES, FILE_RULES
from gpuprof.review.rules.rule import CodeRule, FileRule
from gpuprof.units import format_si
from gpuprof.views.exports.json_documents import schema_of_review
from gpuprof.words.findings import threshold_text
from gpuprof.words.wording import CodeWording, wording

INTRO = """What `gpuprof check FILE --format json` writes, and what `gpuprof.check` returns. This page is made from the
types in `gpuprof/review/contract.py`, as is [the JSON Schema](check.schema.json).

- Everything is read from machine code. Numbers are bytes and counts, with the unit in the name; nothing is a time.
- `null` means unknown; zero means none. An access of unknown cost has the reason in `unknown`. A
  number that is not finite is written as `null`, or its record is left out, and `notes` says which.
- `offset` counts bytes from the first instruction of the kernel.
- Costs of an access are those of a request with all 32 lanes of a warp.
- A report has an entry for each launch, in its order; other files, one for each kernel and architecture.
- gpuprof writes all fields. A later gpuprof can add some: read past what you do not know.
- A *word* has at most 60 letters, digits, `.`, `_`, `-` and spaces. Short sets of words are listed.
"""

RULES_INTRO = """What [`gpuprof check`](../how-to/check.md) finds in the code of a kernel and, by the last two rules, in
a file as a whole. A rule that [the diagnosis](rules.md) of a profiled kernel has, too, has the same id.

- What is found is **shown by the code**, if the instructions show it, or **a guess**, if they show a sign of it.
- A finding names the instructions, those in the deepest loops first, with their lines where the code has line
  information. It never says what they cost in time: that depends on data and on the GPU.
- What the code does not tell is not guessed: the rule is silent then.
"""


def check_page() -> str:
    """Return the page of the contract."""
    return contract_page("Review", INTRO, schema_of_review())


def code_rules_page() -> str:
    """Return the page of the rules on code."""
    rules: tuple[CodeRule | FileRule, ...] = (*CODE_RULES, *FILE_RULES)
    lines = ["# Rules on code\n", RULES_INTRO]
    lines += ["| rule | says |", "|---|---|"]
    lines += [f"| [`{rule.id}`](#{rule.id}) | {_described(rule).title} |" for rule in rules]
    lines.append("")
    for rule in rules:
        lines += [*rule_lines(rule), f"- **Silent** when: {_described(rule).limitations}\n"]
    return "\n".join(lines)


def rule_lines(rule: Rule | CodeRule | FileRule) -> Iterator[str]:
    """Yield what a rule of either kind is, what it reads, and its thresholds."""
    yield f"## `{rule.id}`\n"
    text = wording(rule.id) if isinstance(rule, Rule) else _described(rule)
    yield f"{text.title}.\n"
    yield f"- **Looks at**: {text.inputs}"
    for item in rule.thresholds:
        limit = threshold_text(item, rule.id)
        value = format_si(item.value, "s") if item.unit == "s" else f"{item.value:g} {item.unit}".strip()
        yield f"- **Threshold**, {limit.name}: {value}; {limit.reason}."


def _described(rule: CodeRule | FileRule) -> CodeWording:
    text = wording(rule.id).code
    assert text is not None, rule.id
    return text
