"""Sessions in notebooks and tables, and the Markdown that is pasted into reviews."""

from __future__ import annotations

import csv
import math
import pickle
from collections.abc import Iterator
from pathlib import Path

import matplotlib as mpl
import pytest
from msgspec import structs
from msgspec.structs import replace

import gpuprof
from gpuprof.model.session import CollectedCounter, Session
from gpuprof.notebook import LoadedSession
from gpuprof.store.write import session_lines
from gpuprof.views.exports.csv_files import kernel_lines
from gpuprof.views.profile import summary_lines
from tests import builders, ncu_bytes
from tests.hand_made import HOSTILE, finding, kernel, session
from tests.outline import Outline
from tests.test_docs import blocks

TWO = LoadedSession.of(
    session(
        kernel(0, finding(gain=0.2), finding("tail-effect", 0.0, severity="info")),
        kernel(1, finding("barrier-wait", 0.6, place=None), label="reduce_sum"),
    )
)


def hostile() -> LoadedSession:
    place = finding().place
    assert place is not None
    bad = finding(
        headline=HOSTILE,
        why=HOSTILE,
        action=HOSTILE,
        advice=HOSTILE,
        place=replace(place, file=HOSTILE, sass=HOSTILE),
    )
    evil = session(kernel(0, bad, label=HOSTILE, name=HOSTILE, demangled=HOSTILE))
    source = replace(evil.sources[0], file=HOSTILE)
    return LoadedSession.of(replace(evil, sources=(source,), devices=(replace(evil.devices[0], name=HOSTILE),)))


# The session that load returns


def test_load_returns_a_session_that_equals_its_plain_twin(tmp_path: Path) -> None:
    path = tmp_path / "saxpy.ncu-rep"
    path.write_bytes(
        ncu_bytes.simple_report([("saxpy", {**ncu_bytes.A100, **builders.FLOP_1, "gpu__time_duration.sum": 1000.0})])
    )
    loaded = gpuprof.load(path)
    plain = Session(**structs.asdict(loaded))
    assert isinstance(loaded, LoadedSession) and type(plain) is Session
    assert loaded == plain and plain == loaded and hash(loaded) == hash(plain)
    assert loaded != replace(plain, gpuprof_version="other") and plain != replace(loaded, kernels=())
    assert loaded != "text" and replace(loaded, kernels=()) == replace(plain, kernels=())
    assert pickle.loads(pickle.dumps(loaded)) == plain
    with pytest.raises(AttributeError):
        loaded.kernels = ()  # type: ignore[misc]
    roofs = gpuprof.load_spec("h200-sxm")
    assert isinstance(roofs, LoadedSession) and "H200" in roofs._repr_html_()


# HTML


def test_hostile_texts_stay_text_in_html() -> None:
    shown = Outline(hostile()._repr_html_())
    assert not {"script", "img", "a"} & set(shown.tags)
    names = {name for _, name, _ in shown.attributes}
    assert names <= {"class", "style", "scope", "role", "tabindex", "aria-label", "aria-hidden", "title"}
    assert "<img src=x onerror=alert(1)>" in shown.text
    assert "\x1b" not in shown.text and "\u202e" not in shown.text


# Figures


@pytest.fixture
def agg() -> Iterator[None]:
    """Draw without a screen, and leave no figure open."""
    before = mpl.get_backend()
    mpl.use("Agg")
    yield
    from matplotlib import pyplot

    pyplot.close("all")
    mpl.use(before)


@pytest.fixture
def drawn(tmp_path: Path, agg: None) -> LoadedSession:
    path = tmp_path / "two.ncu-rep"
    values = {**ncu_bytes.A100, **builders.FLOP_1, "gpu__time_duration.sum": 1000.0}
    path.write_bytes(ncu_bytes.simple_report([("saxpy", values), ("copy", values)]))
    return gpuprof.load(path)


def test_a_roofline_is_drawn_into_a_figure_of_its_own_or_into_a_grid(drawn: LoadedSession) -> None:
    from matplotlib import pyplot

    ax = drawn.plot_roofline()
    assert pyplot.get_fignums() == [1] and ax.figure is pyplot.figure(1)
    assert ax.get_title(loc="left").startswith("NVIDIA A100 80GB PCIe")
    assert {line.get_gid() for line in ax.lines} >= {"point-0-fp32-dram", "point-1-fp32-dram"}
    _, (left, right) = pyplot.subplots(1, 2, figsize=(12, 4))
    assert drawn.plot_roofline(left) is left
    assert drawn.plot_roofline(right, kernel=1, ceiling="rated") is right
    assert pyplot.get_fignums() == [1, 2]
    assert left.get_xscale() == right.get_xscale() == "log" and right.get_title(loc="left") == "copy #1"


@pytest.mark.slow
def test_the_programs_of_the_how_to_page_run(tmp_path: Path, agg: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    values = {**ncu_bytes.A100, **builders.FLOP_1, "gpu__time_duration.sum": 1000.0}
    Path("report.ncu-rep").write_bytes(ncu_bytes.simple_report([(name, values) for name in ("a", "b", "c", "d")]))
    names: dict[str, object] = {}
    page = Path(__file__).resolve().parents[1] / "docs" / "how-to" / "notebook.md"
    programs = blocks(page, "python")
    assert len(programs) == 5
    for program in programs:
        exec(compile(program, page.name, "exec"), names)
    assert {path.name for path in Path().iterdir()} == {"report.ncu-rep", "rooflines.png", "session.json"}


# Tables


def test_hostile_texts_stay_in_their_csv_cell_and_json_line() -> None:
    text = "\n".join(kernel_lines(hostile()))
    assert len(text.splitlines()) == 2 and "\x1b" not in text and "\u202e" not in text
    assert not any("\x1b" in line or "\u202e" in line or "\n" in line for line in session_lines(hostile()))


def test_a_hostile_counter_is_text_in_the_header_of_a_csv_and_replaces_no_column() -> None:
    counters = (CollectedCounter("=1+1\x1b", 5.0, ""), CollectedCounter("launches", 7.0, ""))
    made = replace(TWO, kernels=(replace(TWO.kernels[0], collected=counters),))
    header, values = csv.reader(kernel_lines(made))
    assert header[-1] == "'=1+1\\x1b" and values[-1] == "5.0"
    assert values[header.index("launches")] == str(TWO.kernels[0].launches) and header.count("launches") == 1


def test_a_session_that_cannot_be_written_leaves_files_as_they_are(tmp_path: Path) -> None:
    broken = replace(TWO, kernels=(replace(TWO.kernels[0], waves=math.nan),))
    path = tmp_path / "s.json"
    for before in (False, True):
        with pytest.raises(ValueError, match=r"^kernels\[0\]\.waves is nan"):
            broken.save(path, overwrite=before)
        assert path.exists() is before
        TWO.save(path, overwrite=before)
    assert gpuprof.load(path) == TWO


# Markdown


def markdown(what: Session, top: int = 20) -> list[str]:
    return list(summary_lines(what, list(what.kernels), top))


def test_hostile_texts_are_text_in_markdown() -> None:
    for line in markdown(hostile()):
        assert "\x1b" not in line and "\u202e" not in line and "\n" not in line
        plain = line.replace("\\<", "").replace("\\`", "").replace("\\[", "").replace("\\|", "")
        assert "<" not in plain and "`" not in plain and "[" not in plain and "://" not in plain
    rows_of_table = [line for line in markdown(hostile()) if line.startswith("|")]
    assert len({line.replace("\\|", "").count("|") for line in rows_of_table}) == 1
