"""How often gpuprof's diagnosis is right: planted bottlenecks, checked, recorded and scored.

python -m benchmarks.diagnosis check [NAME …] [--arch SM]   is one cause in the code of `slow`, and gone from `fixed`
python -m benchmarks.diagnosis agree [NAME …]               do both kernels compute the same, on the host's processor
python -m benchmarks.diagnosis record FOLDER [NAME …]       run them under ncu on this GPU: one report a case
    [--minutes M] [--archive FILE] [--ncu PATH]             in parts: the same command goes on; as files of 15 MB
python -m benchmarks.diagnosis score FOLDER [NAME …]        judge recorded reports in FOLDER and its folders
    [--held-out]                                            also of the half that rules are not tuned on
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.command_line import add_part_options, ended, seconds_of
from benchmarks.command_line import run as run_command
from benchmarks.diagnosis.case import TARGETS, Case
from benchmarks.diagnosis.case_file import load_cases
from gpuprof.errors import GpuprofError


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the first word says; return 0, 1 where something is wrong, or an error's exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.diagnosis", description=(__doc__ or "").partition("\n")[0]
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for name, run, text in (
        ("check", check, "judge the compiled code"),
        ("agree", agree, "run both kernels on the host"),
    ):
        command = commands.add_parser(name, help=text)
        command.add_argument("names", nargs="*", metavar="NAME")
        command.set_defaults(run=run)
        if name == "check":
            command.add_argument("--arch", action="append", choices=TARGETS, metavar="SM")
    for name, run, text in (("record", record, "run under ncu"), ("score", score, "judge recorded reports")):
        command = commands.add_parser(name, help=text)
        command.add_argument("folder", type=Path, metavar="FOLDER")
        command.add_argument("names", nargs="*", metavar="NAME")
        command.set_defaults(run=run)
        if name == "score":
            command.add_argument("--held-out", action="store_true", help="also the half that no rule is tuned on")
        if name == "record":
            command.add_argument("--device", type=int, default=0, metavar="N")
            add_part_options(command)
    return run_command(parser, arguments)


def check(options: argparse.Namespace) -> int:
    """Print a line for each case and target whose gate does not pass, and how many do."""
    from benchmarks.diagnosis.gate import check_cases

    cases = load_cases(options.names)
    with ThreadPoolExecutor(2) as pool:
        by_target = list(pool.map(lambda target: check_cases(cases, target), options.arch or TARGETS))
    answers = [answer for of_case in zip(*by_target, strict=True) for answer in of_case]
    for answer in answers:
        if answer.gate != "pass" or options.names:
            print(f"{answer.gate:12} {answer.case.name} {answer.target}: {answer.why}")
    counts = {gate: sum(answer.gate == gate for answer in answers) for gate in ("pass", "fail", "unsupported")}
    print(", ".join(f"{count} {gate}" for gate, count in counts.items()))
    return 1 if counts["fail"] else 0


def agree(options: argparse.Namespace) -> int:
    """Print what differs between the results of the two kernels of each case."""
    from benchmarks.diagnosis.agree import disagreements

    wrong = 0
    for case in load_cases(options.names):
        problems = _problems(case, disagreements)
        wrong += bool(problems)
        print(f"{'differs' if problems else 'agrees':8} {case.name} {'; '.join(problems)}".rstrip())
    return 1 if wrong else 0


def _problems(case: Case, compare) -> tuple[str, ...]:  # type: ignore[no-untyped-def]
    try:
        return tuple(compare(case))
    except GpuprofError as error:
        return (error.message,)


def record(options: argparse.Namespace) -> int:
    """Record the cases; what fails does not keep the others from being recorded. The same command again goes on."""
    from benchmarks.diagnosis.record import record as record_cases
    from benchmarks.diagnosis.worth import by_worth

    def tell(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    cases = load_cases(options.names)
    if not options.names:
        named = {case.name: case for case in cases}
        cases = tuple(named[name] for name in by_worth({case.name: case.planted_rule for case in cases}))
    done = record_cases(cases, options.folder, options.device, tell, ncu=options.ncu, seconds=seconds_of(options))
    for problem in done.problems:
        tell(problem)
    return ended(options.folder, options.archive, len(done.problems), done.left, tell)


def score(options: argparse.Namespace) -> int:
    """Print the tables; return 1 where a case has no report or cannot be judged. Doubts of cases are told of all."""
    from benchmarks.diagnosis.score import score as score_cases
    from benchmarks.diagnosis.table import case_rows, doubt_rows, rate_rows, shown

    outcomes, problems = score_cases(load_cases(options.names), options.folder)
    judged = shown(outcomes, held_out=options.held_out)
    if judged:
        print("\n".join([*case_rows(judged), "", *rate_rows(judged), ""]))
    print("\n".join(doubt_rows(outcomes)))
    if len(judged) < len(outcomes):
        print(f"{len(outcomes) - len(judged)} held out, which --held-out shows")
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
