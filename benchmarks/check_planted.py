"""What `gpuprof check` finds of the planted bottlenecks from their code alone, and what it says of their fixes.

python -m benchmarks.check_planted [NAME …] [--arch SM]   compile them, review their code, compare with what is expected
python -m benchmarks.check_planted --write                note what was found as what is expected

The cases of microkernels/bottlenecks are compiled for their architectures and never run. Bottlenecks of launches, of
bandwidth and of latency are not in the code; the table names them.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.command_line import run as run_command
from benchmarks.diagnosis.agree import scalar
from benchmarks.diagnosis.case import FIXED, NONE, SLOW, TARGETS, Case, Room
from benchmarks.diagnosis.case_file import load_cases
from benchmarks.diagnosis.compiled import compile_case
from gpuprof.review.contract import ReviewedKernel
from gpuprof.review.kernel import CompiledKernel, KnownLaunch
from gpuprof.review.parallel import reviewed_kernels
from gpuprof.review.registry import CODE_RULES
from gpuprof.sass.binary.cubin import read_cubin
from gpuprof.sass.tools.compile import NotCompiled

EXPECTED = Path(__file__).parent.parent / "tests" / "data" / "planted-in-code.json"
_ROOM = Room(sm_count=1, blocks_per_sm=1)
_WHOLE = ("u32", "u64", "i32")
HEAD = ("planted rule", "cases", "found in the code", "found in the fixed kernel", "other rules found in fixed kernels")
IN_CODE = frozenset(rule.id for rule in CODE_RULES)


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeVerdict:
    """The rules that a kernel of a case was found to break, on one architecture."""

    case: str
    entry: str
    target: str
    rules: frozenset[str]


Outcome = Mapping[str, Mapping[str, list[str]]]
"""By case: the architectures on which the planted rule is `found` in `slow`, and `told` of `fixed`."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; return 1 where something that was found is found no more, or more is told of a fix."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.check_planted", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="cases; all without")
    parser.add_argument("--arch", action="append", choices=TARGETS, metavar="SM", help="architectures; all without")
    parser.add_argument("--write", action="store_true", help="note what was found as what is expected")
    parser.set_defaults(run=_run)
    return run_command(parser, arguments)


def _run(options: argparse.Namespace) -> int:
    cases = load_cases(options.names)
    shown = [case for case in cases if case.planted_rule in IN_CODE | {NONE}]
    told = [item for target in options.arch or TARGETS for item in planted_in_code(shown, target)]
    outcome = outcomes(cases, told)
    print("\n".join((*table(cases, told, outcome), "", *unseen(cases))))
    before = expected() if EXPECTED.exists() else {}
    if options.write:
        kept = merged(outcome, before, options.arch or TARGETS)
        EXPECTED.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
        return 0
    wrong = list(regressions(outcome, before, options.arch or TARGETS))
    print("\n".join(wrong), file=sys.stderr)
    return 1 if wrong else 0


def planted_in_code(cases: Sequence[Case], target: str) -> Iterator[CodeVerdict]:
    """Yield what is told of the kernels of these cases on an architecture. Raises EnvironmentProblem without tools."""
    kernels = [(case.name, entry, kernel) for case in cases for entry, kernel in _kernels(case, target)]
    reviewed = reviewed_kernels([kernel for _, _, kernel in kernels], lambda *_: None)
    for (name, entry, _), answer in zip(kernels, reviewed, strict=True):
        yield CodeVerdict(case=name, entry=entry, target=target, rules=_rules(answer))


def _kernels(case: Case, target: str) -> Iterator[tuple[str, CompiledKernel]]:
    """Yield the kernels of a case as they are launched; none where it is not made for the architecture."""
    if target not in case.targets:
        return
    compiled = compile_case(case, target)
    if isinstance(compiled, NotCompiled):
        return
    sizes = case.sized(_ROOM)
    values = {
        ordinal: int(scalar(sizes, kind, name or "", 0))
        for ordinal, (kind, name) in enumerate(case.arguments)
        if kind in _WHOLE
    }
    for entry, output in compiled.items():
        shape = case.launches[entry].shape(sizes, _ROOM)
        launch = KnownLaunch(
            block=shape.block, grid=shape.grid, dynamic_shared_bytes=shape.shared_bytes, arguments=values
        )
        own = next(kernel for kernel in read_cubin(output.cubin).kernels if kernel.mangled == entry)
        yield (
            entry,
            CompiledKernel(
                name=entry,
                label=entry,
                target=target,
                origin=case.name,
                cubin=output.cubin,
                kernel=own,
                shape=launch,
            ),
        )


def _rules(kernel: ReviewedKernel) -> frozenset[str]:
    return frozenset(finding.rule for finding in kernel.findings)


def outcomes(cases: Sequence[Case], told: Sequence[CodeVerdict]) -> dict[str, dict[str, list[str]]]:
    """Return for each case with a rule that code can show on which architectures it was found, and told of fixes."""
    planted = {case.name: case.planted_rule for case in cases if case.planted_rule in IN_CODE}
    result: dict[str, dict[str, list[str]]] = {name: {"found": [], "told": []} for name in planted}
    for item in told:
        if item.case in planted and planted[item.case] in item.rules:
            result[item.case]["found" if item.entry == SLOW else "told"].append(item.target)
    return result


def expected() -> dict[str, dict[str, list[str]]]:
    """Return what is expected."""
    content: dict[str, dict[str, list[str]]] = json.loads(EXPECTED.read_text(encoding="utf-8"))
    return content


def merged(outcome: Outcome, before: Outcome, targets: Sequence[str]) -> Outcome:
    """Return what is expected from now on; what was not looked at stays."""
    result = {name: {key: list(value) for key, value in was.items()} for name, was in before.items()}
    for name, now in outcome.items():
        was = before.get(name, {"found": [], "told": []})
        result[name] = {
            key: sorted({*now[key], *(target for target in was[key] if target not in targets)}) for key in now
        }
    return dict(sorted(result.items()))


def regressions(outcome: Outcome, before: Outcome, targets: Sequence[str]) -> Iterator[str]:
    """Yield what is worse than expected, on these architectures."""
    for name, now in outcome.items():
        was = before.get(name, {"found": [], "told": []})
        lost = [target for target in was["found"] if target in targets and target not in now["found"]]
        alarms = [target for target in now["told"] if target not in was["told"]]
        if lost:
            yield f"{name}: the planted rule is no longer found on {', '.join(lost)}"
        if alarms:
            yield f"{name}: the planted rule is told of the fix on {', '.join(alarms)}"


def table(cases: Sequence[Case], told: Sequence[CodeVerdict], outcome: Outcome) -> Iterator[str]:
    """Yield a row for each rule that code can show, as Markdown."""
    yield "| " + " | ".join(HEAD) + " |"
    yield "|" + "|".join("---" for _ in HEAD) + "|"
    for rule in sorted({case.planted_rule for case in cases} & (IN_CODE | {NONE})):
        own = [case.name for case in cases if case.planted_rule == rule]
        slow = [item for item in told if item.case in own and item.entry == SLOW]
        fixed = [item for item in told if item.case in own and item.entry == FIXED]
        shown = sum(len(outcome[name]["found"]) for name in own if name in outcome)
        alarms = sum(len(outcome[name]["told"]) for name in own if name in outcome)
        others = sorted({other for item in fixed for other in item.rules - {rule}})
        yield (
            f"| {rule} | {len(own)} | {_part(shown, len(slow))} | {_part(alarms, len(fixed))} "
            f"| {', '.join(others) or 'none'} |"
        )


def _part(count: int, of: int) -> str:
    return f"{count} of {of}" if of else "–"


def unseen(cases: Sequence[Case]) -> Iterator[str]:
    """Yield which planted rules no rule on code has: they are in the launch, in bandwidth, latency or counts."""
    rules = sorted({case.planted_rule for case in cases} - IN_CODE - {NONE})
    if rules:
        yield f"not in the code: {', '.join(rules)}"


if __name__ == "__main__":
    sys.exit(main())
