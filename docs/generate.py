"""Writes docs/reference from code and data: commands, the session, rules, counters, hardware, probes, and so on.

`python docs/generate.py` writes the files, and what examples print into the README and the how-to of `compare` and
`check`; with names of files, only those. With `--check` it writes nothing and fails if one is out of date. `--pictures`
also takes the README's pictures of a page; their bytes depend on the browser.
"""

from __future__ import annotations

import inspect
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from importlib.metadata import distributions
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any, Literal

import click
from bottlenecks_page import bottlenecks_page
from check_page import check_page, code_rules_page, rule_lines
from comparison_page import comparison_page
from measured_page import measured_page
from probes_page import probes_page
from session_page import session_page

import gpuprof
from gpuprof import errors
from gpuprof.cli.demo_versions import versions_of
from gpuprof.cli.main import COMMANDS, cli
from gpuprof.diagnose.facts.launch import LAUNCH_MOST_S, LAUNCH_S
from gpuprof.diagnose.registry import RULES
from gpuprof.diagnose.thresholds import HIGH, LOW, MEDIUM
from gpuprof.hardware.library import SpecLibrary, load_gpu
from gpuprof.hardware.specs import ArchSpec, ComputeKey
from gpuprof.recordings import recordings
from gpuprof.resources import data_dir
from gpuprof.store.schema import schema_of_session, schema_text
from gpuprof.store.write import session_bytes
from gpuprof.units import format_percent, format_si, significant
from gpuprof.views.exports.json_documents import schema_of_comparison, schema_of_review
from gpuprof.views.specs import terms_text
from gpuprof.words.wording import wording

REFERENCE = Path(__file__).resolve().parent / "reference"
ROOT = REFERENCE.parents[1]
README = ROOT / "README.md"
CHECK = REFERENCE.parent / "how-to" / "check.md"
NOTE = "<!-- Written by docs/generate.py; change the code instead. -->\n"
WIDTH = 100


def main() -> int:
    """Write or check every generated file; return the exit code."""
    stale = []
    wanted = [name for name in sys.argv[1:] if not name.startswith("--")] or FILES
    for name in wanted:
        make = FILES[name]
        path, text = (REFERENCE / name).resolve(), make()
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            continue
        if "--check" in sys.argv:
            stale.append(path.name)
            continue
        REFERENCE.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        sys.stdout.write(f"wrote {path.name}\n")
    if "--pictures" in sys.argv:
        draw_pictures()
    if stale:
        sys.stdout.write(f"out of date: {', '.join(stale)}; run make docs\n")
    return 1 if stale else 0


EXAMPLE = "h100-transpose"
"""The recording that the README shows, in the terminal and as a page."""
THEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
SOURCES = re.compile(r"(?<=<!-- the file: )(\S+\.cu) -->\n```cuda\n(.*?)(?=```\n)", re.DOTALL)
"""Files that a page shows, for its examples."""
EXAMPLES = re.compile(r"(?<=<!-- the example: )(gpuprof [^\n]*)( -->\n```text\n).*?(?=```\n)", re.DOTALL)
REPORTS = ROOT.parent / "shared" / "reports"
"""Real reports, where they lie beside the checkout; an example of those that do not stays as it is."""
PAIR = ("MW_Baseline.ncu-rep", "MW_DivToMult.ncu-rep")
"""The two reports of NCAR/GPU_workshop that are compared."""
PAGE_WIDTH = 1000
PAGE_END = "Math.ceil([...document.querySelectorAll('figure:has(svg)')].pop().getBoundingClientRect().bottom) + 20"
"""A picture has the page's verdict, what to fix first, the roofline and the bandwidths."""


def draw_pictures() -> None:
    """Take pictures of the example's page, in light and dark; needs Debian's chromium."""
    sys.path.insert(0, str(ROOT))
    from tests.chromium import Browser

    folder = REFERENCE.parent / "images"
    folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        page = Path(scratch) / "report.html"
        _gpuprof("report", _example(scratch), "-o", page.name, cwd=scratch)
        with Browser(Path(scratch)) as browser:
            for theme in THEMES:
                browser.open(page, width=PAGE_WIDTH, dark=theme == "dark")
                browser.open(page, width=PAGE_WIDTH, height=browser.run(PAGE_END), dark=theme == "dark")
                (folder / f"page-{theme}.png").write_bytes(browser.picture(whole=False))


def _example(folder: str) -> str:
    """Write the report of the example into a folder, and return its name."""
    (recording,) = (shipped for shipped in recordings() if shipped.name == EXAMPLE)
    (Path(folder) / recording.file_name).write_bytes(recording.report())
    return recording.file_name


def _gpuprof(*arguments: str, cwd: str) -> str:
    """Run gpuprof in a terminal as wide as the README's, and return what it prints."""
    command = [sys.executable, "-m", "gpuprof", *arguments]
    environ = {**os.environ, "COLUMNS": str(WIDTH), "PYTHONIOENCODING": "utf-8"}
    return subprocess.run(command, cwd=cwd, env=environ, capture_output=True, encoding="utf-8", check=True).stdout


def readme() -> str:
    """The README as it is, with what `gpuprof show` and `gpuprof check` print of the examples."""
    with tempfile.TemporaryDirectory() as scratch:
        _example(scratch)
        return _with_examples(README, scratch)


def compare_how_to() -> str:
    """The how-to as it is, with what `gpuprof compare` prints of a pair of reports, and of the demo's two versions."""
    with tempfile.TemporaryDirectory() as scratch:
        _versions(scratch)
        for name in PAIR:
            report = REPORTS / f"gpu_workshop-{name}"
            if report.is_file():
                shutil.copyfile(report, Path(scratch) / name)
        return _with_examples(REFERENCE.parent / "how-to" / "compare.md", scratch)


def check_how_to() -> str:
    """The how-to as it is, with what `gpuprof check` prints of its source."""
    with tempfile.TemporaryDirectory() as scratch:
        return _with_examples(CHECK, scratch)


def _versions(folder: str) -> None:
    """Write the two versions that `gpuprof demo` leaves into a folder."""
    (story,) = (shipped for shipped in recordings() if shipped.steps)
    report = Path(folder) / story.file_name
    report.write_bytes(story.report())
    place = Path(folder) / "gpuprof-demo" / story.name
    place.mkdir(parents=True)
    for path, session in versions_of(gpuprof.load(report), place).sessions.items():
        path.write_bytes(session_bytes(session))


def _with_examples(page: Path, folder: str) -> str:
    """Return a page with what its examples print in a folder; one whose files or tools are not there stays."""
    text = page.read_text(encoding="utf-8")
    for name, source in SOURCES.findall(text):
        (Path(folder) / name).write_text(source, encoding="utf-8")

    def printed(place: re.Match[str]) -> str:
        command, fence = place.groups()
        files = [word for word in shlex.split(command) if word.endswith((".ncu-rep", ".json", ".cu"))]
        if not all((Path(folder) / file).is_file() for file in files) or (" check " in command and not _compiles()):
            return place[0]
        return f"{command}{fence}$ {command}\n{_gpuprof(*shlex.split(command)[1:], cwd=folder).strip()}\n"

    assert EXAMPLES.search(text), f"{page.name} has no place for an example"
    return EXAMPLES.sub(printed, text)


def _compiles() -> bool:
    """Tell whether NVIDIA's compiler and disassembler are installed as `constraints.txt` has them."""
    wheels = ("nvidia-cuda-nvrtc", "nvidia-cuda-nvdisasm")
    return all(wheel in _installed() for wheel in wheels)


@cache
def _installed() -> frozenset[str]:
    return frozenset(distribution.metadata["Name"] for distribution in distributions())


def cli_page() -> str:
    """Every command with its options, from click itself."""
    parts = [NOTE, "# Command line\n", "Results go to stdout, talk and errors to stderr.\n", *_exit_codes()]
    settings = {**cli.context_settings, "max_content_width": WIDTH, "terminal_width": WIDTH}
    context = click.Context(cli, info_name="gpuprof", **settings)
    parts.append(_help_block("gpuprof", cli.get_help(context)))
    for name in COMMANDS:
        command = cli.get_command(context, name)
        assert command is not None
        parts.extend(_command_blocks(command, f"gpuprof {name}", context))
    return "\n".join(parts)


def _exit_codes() -> Iterator[str]:
    """A table of the exit codes, from the tree of exceptions; a subclass with its parent's code says what it adds."""
    yield "| exit code | exception | meaning |"
    yield "|--:|---|---|"
    yield "| 0 | | The command did what it was asked to do. |"
    for code, same_code in groupby(sorted(_exceptions(), key=attrgetter("exit_code")), attrgetter("exit_code")):
        if code == errors.Interrupted.exit_code:
            yield f"| {errors.GATE_REGRESSION} | | `gpuprof compare` and `check`: a limit of `--fail-on` is exceeded. |"
            yield f"| {errors.GATE_UNCLEAR} | | The same with `--unclear fail`: a limit cannot be judged. |"
        kinds = list(same_code)
        meanings = ((inspect.getdoc(kind) or "").partition("\n")[0] for kind in kinds)
        yield f"| {code} | {', '.join(f'`{kind.__name__}`' for kind in kinds)} | {' '.join(meanings)} |"
    yield f"| {errors.PIPE_CLOSED} | | The reader of a pipe has gone. |\n"


def _exceptions() -> list[type[errors.GpuprofError]]:
    kinds = (kind for kind in vars(errors).values() if isinstance(kind, type))
    return [kind for kind in kinds if issubclass(kind, errors.GpuprofError)]


def _command_blocks(command: click.Command, name: str, parent: click.Context) -> Iterator[str]:
    context = click.Context(
        command, info_name=name.rsplit(maxsplit=1)[-1], parent=parent, max_content_width=WIDTH, terminal_width=WIDTH
    )
    yield _help_block(name, command.get_help(context))
    if isinstance(command, click.Group):
        for child in command.list_commands(context):
            subcommand = command.get_command(context, child)
            assert subcommand is not None
            yield from _command_blocks(subcommand, f"{name} {child}", context)


def _help_block(name: str, text: str) -> str:
    return f"## `{name}`\n\n```text\n{text}\n```\n"


def hardware_page() -> str:
    """Every GPU and architecture that ships, in a table."""
    library = SpecLibrary(folders=(data_dir("specs"),))
    lines = [NOTE, "# Hardware\n", HARDWARE_INTRO]
    lines += [
        "| spec | GPU | arch | SMs | boost clock | DRAM | FP32 | FP16 tensor |",
        "|---|---|---|--:|--:|--:|--:|--:|",
    ]
    for path in library.gpu_files():
        gpu = load_gpu(path)
        rated = {key: format_si(fact.value, fact.unit) + _mark(fact.confirmed) for key, fact in gpu.rated.items()}
        boost = gpu.facts.get("boost_clock")
        cells = (
            f"`{gpu.name}`",
            gpu.title,
            gpu.arch,
            f"{gpu.facts['sm_count'].value:.0f}",
            format_si(boost.value, "Hz") + _mark(boost.confirmed) if boost else "",
            rated.get(ComputeKey("dram"), ""),
            rated.get(ComputeKey("fp32"), ""),
            rated.get(ComputeKey("tensor.fp16", "fp32"), ""),
        )
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", "## Architectures\n", *_arch_table(library)]
    return "\n".join(lines) + "\n"


HARDWARE_INTRO = """`gpuprof specs show NAME` has every fact with its source. Peaks are the datasheets', dense;
tensor peaks accumulate in FP32. A star marks a fact known from memory only, or a doubtful one.
"""


def _mark(confirmed: bool) -> str:
    return "" if confirmed else "\\*"


def _arch_table(library: SpecLibrary) -> Iterator[str]:
    yield "| arch | family | chips | warps per SM | shared memory per SM | FP32 FLOP/clk/SM | L2 port, B/clk |"
    yield "|---|---|---|--:|--:|--:|--:|"
    for arch in _archs(library):
        fp32, l2 = arch.compute.get(ComputeKey("fp32")), arch.bandwidth.get("l2")
        yield (
            f"| {arch.name} | {arch.family} | {', '.join(arch.chips)} | {arch.limit('warps_per_sm')} | "
            f"{arch.limit('shared_per_sm') // 1024} KiB | {_rate(fp32)} | {_rate(l2)} |"
        )


def _rate(fact: Any) -> str:
    return f"{significant(fact.value, 6, strip=True)}{_mark(fact.confirmed)}" if fact is not None else ""


def _archs(library: SpecLibrary) -> list[ArchSpec]:
    archs = [library.arch(path.stem) for path in library.arch_files()]
    return sorted((arch for arch in archs if arch is not None), key=lambda arch: float(arch.compute_capability))


def counters_page() -> str:
    """The chains of metrics behind every quantity, per architecture."""
    archs = _archs(SpecLibrary(folders=(data_dir("specs"),)))
    lines = [NOTE, "# Counters\n", COUNTERS_INTRO]
    for quantity in sorted({name for arch in archs for name in arch.counters}):
        lines.append(f"## `{quantity}`\n")
        groups: dict[tuple[str, ...], list[str]] = {}
        for arch in archs:
            chain = arch.counters.get(quantity)
            if chain is not None:
                groups.setdefault(tuple(_link_text(link) for link in chain), []).append(arch.name)
        for links, names in groups.items():
            lines.append(f"{', '.join(names)}:\n")
            lines += [f"{index}. {text}" for index, text in enumerate(links, 1)]
            lines.append("")
    return "\n".join(lines)


COUNTERS_INTRO = """For each quantity the ways to obtain it, in the order in which they are tried: the first whose
metrics are all in the report counts.
`specs/README.md` explains `how`.
"""


def _link_text(link: Any) -> str:
    terms = terms_text(link)
    basis = "" if link.basis == "counted" else f", {link.basis}"
    what = f": `{terms}`" if terms else ""
    definition = f" ({link.definition})" if link.definition else ""
    return f"{link.how}{basis}{what}{definition}"


def rules_page() -> str:
    """Every rule as it describes itself."""
    lines = [NOTE, "# Rules\n", RULES_INTRO]
    lines += ["| rule | says | kind |", "|---|---|---|"]
    lines += [f"| [`{rule.id}`](#{rule.id}) | {wording(rule.id).title} | {rule.kind} |" for rule in RULES]
    lines.append("")
    for rule in RULES:
        known = wording(rule.id)
        lines += [*rule_lines(rule), f"- **Gain**: {known.gain}"]
        lines += [f"- **Silent** when: {known.limitations}\n"]
    return "\n".join(lines)


def _of_run() -> str:
    return ", ".join(f"`{rule.id}`" for rule in RULES if rule.of_run)


def _of_launches() -> str:
    return ", ".join(f"`{rule.id}`" for rule in RULES if rule.of_launches)


RULES_INTRO = f"""A rule asks one question of one kernel. What it answers is a finding: what, with which evidence, why
it costs time, what to change, where, how sure, and what that can gain.

- A **gain** is the fraction of the kernel's time that fixing the finding saves; for the run it is multiplied by the
  kernel's share of the time. A gain of kind `bound` is an upper bound, written "at most" or `≤`: a fix removes the
  need of some units, and the kernel cannot end before the others are done, so the bound is 1 − the largest need that
  remains. One of kind `conditional` (`~`) holds under the condition that it names. Gains of one kernel do not add up.
- What warps wait, what goes of their accesses and what places on SMs are empty is of the **working time**: the part
  of the kernel's time in which SMs have work. Its launch takes the rest, which no change of the kernel saves: from
  {format_si(LAUNCH_S, "s")} to {format_si(LAUNCH_MOST_S, "s")}, by the active cycles of the busiest SM. A bound counts
  more than the least only where all blocks run at once: between two rounds of blocks an SM can be empty, too.
- **Severity** follows the gain for the kernel: high from {format_percent(HIGH)}, medium from {format_percent(MEDIUM)},
  low from {format_percent(LOW)}, else info. A guess is low at most. Info is true, but nothing to fix by itself: a
  kernel near its ceiling, an occupancy limit that costs nothing, or what another finding explains.
- **Confidence**: measured (a counter counts the defect itself, or the launch alone decides it), inferred (several
  counters together), guess (the report lacks what would prove it, or the kernel is so short that its launch takes as
  long).
- Kinds: a **defect** can be fixed, a **limit** is what the kernel runs into, a **symptom** is what its warps wait
  for. What a defect or a limit of the same kernel explains has it as its cause, and goes when that is fixed.
- Findings of a kernel come by severity, defects before limits before symptoms, then by gain; what another finding
  explains comes last. Over all kernels, each fix is one recommendation, however many kernels it helps: by the gain for
  the run, guesses after all others, and kernels that only set up data last.
- A value that was not collected is never taken for zero: the rule is silent then.

Rules of the run, {_of_run()}, need a timeline, which a counter report does not have. Rules that compare launches, or
read their order, {_of_launches()}, need several of them in a session.
"""


FILES: dict[str, Callable[[], str]] = {
    "cli.md": cli_page,
    "rules.md": rules_page,
    "session.md": lambda: NOTE + "\n" + session_page(),
    "session.schema.json": lambda: schema_text(schema_of_session()),
    "comparison.md": lambda: NOTE + "\n" + comparison_page(),
    "comparison.schema.json": lambda: schema_text(schema_of_comparison()),
    "check.md": lambda: NOTE + "\n" + check_page(),
    "check.schema.json": lambda: schema_text(schema_of_review()),
    "code-rules.md": lambda: NOTE + "\n" + code_rules_page(),
    "hardware.md": hardware_page,
    "counters.md": counters_page,
    "probes.md": lambda: NOTE + "\n" + probes_page(),
    "measured.md": lambda: NOTE + "\n" + measured_page(),
    "bottlenecks.md": lambda: NOTE + "\n" + bottlenecks_page(),
    "../how-to/compare.md": compare_how_to,
    "../how-to/check.md": check_how_to,
    "../../README.md": readme,
}

if __name__ == "__main__":
    sys.exit(main())
