"""The documentation: links lead somewhere, commands and options exist, worked examples are right."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from gpuprof.api_compare import accepted_regressions
from gpuprof.characterize.probes.probe import all_targets
from gpuprof.cli.config_file import find_config
from gpuprof.cli.main import COMMANDS, cli
from gpuprof.diagnose.registry import RULES
from gpuprof.hardware.check import check_files
from gpuprof.hardware.library import SpecLibrary
from gpuprof.model.occupancy import LaunchResources, theoretical_occupancy
from gpuprof.model.roofline import Roof, roofline_point
from gpuprof.model.sass_opcodes import matrix_opcode
from gpuprof.model.session import Traffic, Work
from gpuprof.read.readers import has_name_of_a_file
from tests.builders import ADD, FLOP_1
from tests.ncu_bytes import A100, simple_report
from tests.table import each_row

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = sorted({*DOCS.rglob("*.md"), *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md"))})
TUTORIAL = DOCS / "tutorial" / "first-report.md"

"""Options of ncu, which the pages mention."""

_FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`([^`\n]+)`")
_LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)\)|\b(?:src|srcset)=\"([^\"]+)\"")
_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
_MACHINE_PATH = re.compile(r"(?<![\w.])/(?:work|root|tmp|home/\w)|[A-Z]:\\Users")


def blocks(page: Path, *languages: str) -> list[str]:
    """The fenced blocks of a page, of some languages or of all."""
    fenced = _FENCE.findall(page.read_text(encoding="utf-8"))
    return [text for language, text in fenced if not languages or language in languages]


def prose(page: Path) -> str:
    return _FENCE.sub("", page.read_text(encoding="utf-8"))


def arguments_of(line: str) -> list[str]:
    """Split a shell line into words; operators such as | and > are words of their own."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    return list(lexer)


def gpuprof_calls(line: str) -> Iterator[list[str]]:
    """Yield the arguments of each gpuprof call in a shell line, without redirections."""
    call: list[str] = []
    rest = iter([*arguments_of(line.removeprefix("$ ")), ";"])
    for word in rest:
        if word in {">", ">>", "<", "2>"}:
            next(rest)
        elif set(word) <= set("();|&"):
            if call[:1] == ["gpuprof"]:
                yield call[1:]
            call = []
        else:
            call.append(word)


def resolve(arguments: Sequence[str]) -> tuple[click.Command, list[str]]:
    """Follow the words of a call to its command; return it with what is left."""
    command: click.Command = cli
    rest = ["show", *arguments] if arguments and has_name_of_a_file(arguments[0]) else list(arguments)
    while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        child = command.get_command(click.Context(command), rest[0])
        assert child is not None, f"gpuprof has no command {' '.join(arguments)!r}"
        command, rest = child, rest[1:]
    return command, rest


def options_of(command: click.Command) -> set[str]:
    """The long options of a command, and those of its subcommands."""
    # A command remembers the names of its help option from the first context that it meets.
    context = click.Context(command, **cli.context_settings)
    own = {name for option in command.get_params(context) for name in option.opts if name.startswith("--")}
    children = command.commands.values() if isinstance(command, click.Group) else ()
    return own.union(*(options_of(child) for child in children))


def command_named(name: str) -> click.Command:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    return command


def slug(heading: str) -> str:
    """The anchor that Markdown renderers give a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


every_page = each_row("page", PAGES, ids=lambda page: page.relative_to(ROOT))


@every_page
def test_links_lead_somewhere_and_paths_are_nobodys(page: Path) -> None:
    for target in (link or picture for link, picture in _LINK.findall(prose(page))):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        path = page.parent / file if file else page
        assert path.exists(), target
        if anchor and path.suffix == ".md":
            headings = re.findall(r"^#+ (.+)$", prose(path), re.MULTILINE)
            assert anchor in {slug(heading) for heading in headings}, target
    assert _MACHINE_PATH.findall(page.read_text(encoding="utf-8")) == []


@every_page
def test_commands_can_be_typed(page: Path) -> None:
    for line in (line for block in blocks(page, "sh", "bash", "shell", "console", "") for line in block.splitlines()):
        for call in gpuprof_calls(line) if "gpuprof" in line else ():
            command, arguments = resolve(call)
            if not {"--help", "-h", "--version"} & set(arguments):
                command.make_context("gpuprof", arguments)
    for code in (code for code in _CODE.findall(prose(page)) if code.startswith("gpuprof ")):
        command, arguments = resolve(re.findall(r"\S+", code)[1:])
        used = {option for word in arguments for option in _OPTION.findall(word)}
        assert used <= options_of(command) | {"--help", "--version"}, code


@each_row("name", COMMANDS)
def test_every_command_has_a_page_that_names_all_its_options(name: str) -> None:
    text = (DOCS / "how-to" / f"{name}.md").read_text(encoding="utf-8")
    assert f"gpuprof {name}" in text
    assert options_of(command_named(name)) - {"--help"} <= set(_OPTION.findall(text))


# What the pages claim


@pytest.mark.slow
def test_tutorial_runs_from_top_to_bottom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    values = {
        **A100,
        **FLOP_1,
        "gpu__time_duration.sum": 1000.0,
        "launch__block_size": 256.0,
        "launch__registers_per_thread": 40.0,
    }
    Path("report.ncu-rep").write_bytes(simple_report([("sgemm", values), ("copy", {**values, ADD.format("ffma"): 0})]))
    for line in (line for block in blocks(TUTORIAL, "sh") for line in block.splitlines()):
        for call in gpuprof_calls(line):
            result = CliRunner().invoke(cli, call)
            assert result.exit_code == 0, f"{line}: {result.output} {result.exception}"
            if ">" in arguments_of(line):
                Path(arguments_of(line)[-1]).write_bytes(result.stdout_bytes)
    for program in blocks(TUTORIAL, "python"):
        exec(compile(program, str(TUTORIAL), "exec"), {})
    assert {path.name for path in Path().iterdir()} >= {"gpuprof-roofline", "one-kernel", "report.html", "session.json"}


def test_example_spec_passes_its_own_check(tmp_path: Path) -> None:
    page = DOCS / "how-to" / "specs.md"
    (text,) = blocks(page, "yaml")
    file = tmp_path / "my-gpu.yaml"
    file.write_text(text, encoding="utf-8")
    assert check_files([file], SpecLibrary()).findings == ()
    file.write_text(text.replace("19.2 TFLOP/s", "39.2 TFLOP/s"), encoding="utf-8")
    (finding,) = check_files([file], SpecLibrary()).findings
    assert str(finding).replace(str(file), file.name) in page.read_text(encoding="utf-8")


def test_worked_examples_are_right() -> None:
    work, traffic = (
        Work("fp32", 13e6, 1.3e12, basis="counted"),
        Traffic("dram", 2e6, 2e11, definition="dram__bytes", basis="counted"),
    )
    roof = Roof("at-clock", 10e12, 1e12)
    point = roofline_point(work, traffic, roof)
    assert point is not None and roof.ridge() == 10
    assert (point.intensity, point.roof_flop_per_s, point.bound) == (6.5, 6.5e12, "memory")
    assert point.fraction_of_roof == pytest.approx(0.2)
    arch = SpecLibrary().arch("sm_90")
    assert arch is not None
    occupancy = theoretical_occupancy(LaunchResources(256, 40, 0), arch)
    assert occupancy is not None
    assert (occupancy.fraction, occupancy.blocks_per_sm, occupancy.limiters) == (0.75, 6, ("registers",))
    for opcode, flop in (("HMMA.16816.F32", 4096), ("IMMA.16832.S8.S8", 8192)):
        matrix = matrix_opcode(opcode)
        assert matrix is not None and matrix.flop == flop


@each_row("page", [page for page in PAGES if blocks(page, "toml")])
def test_configurations_on_a_page_can_be_read(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for text in blocks(page, "toml"):
        accepted, shared = "[[accepted]]" in text, "[tool.gpuprof]" in text
        file = tmp_path / ("accepted.toml" if accepted else "pyproject.toml" if shared else "gpuprof.toml")
        file.write_text(text, encoding="utf-8")
        if accepted:
            assert accepted_regressions(file.name)
        else:
            config = find_config({"GPUPROF_CONFIG": str(file)})
            assert config is not None and config.values


def test_names_on_pages_are_those_of_rules_and_targets() -> None:
    probes = (ROOT / "microkernels" / "README.md").read_text(encoding="utf-8")
    (listed,) = re.findall(r"Targets: (sm_[\w ]+);", probes)
    assert [f"sm_{number}" for number in listed.removeprefix("sm_").split()] == list(all_targets())
    triage = _CODE.findall(prose(DOCS / "explanation" / "triage.md"))
    named = {code for code in triage if re.fullmatch(r"[a-z\d]+(-[a-z\d]+)+", code)}
    assert named and named <= {rule.id for rule in RULES}
