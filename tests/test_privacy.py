"""What leaves the machine: no argument, environment, host, user, folder or token, in any output of gpuprof."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Iterator
from pathlib import Path
from typing import get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import replace

import gpuprof
from gpuprof.annotated.listing import Listing
from gpuprof.comparison.contract import Acceptance, GateCheck
from gpuprof.model.analyse import analyse
from gpuprof.model.recorded import Missing
from gpuprof.model.session import CodeLine, Evidence, Excerpt, Finding, Location, RunVerdict, Session
from gpuprof.privacy.border import KINDS, is_text, records_in, with_clean_labels, without_private
from gpuprof.privacy.commands import reduced_command
from gpuprof.privacy.source_files import SourceFiles
from gpuprof.privacy.texts import KnownPaths, clean_code, clean_text
from gpuprof.review.contract import BuildChange, Review
from gpuprof.store.page import read_session_html
from gpuprof.store.write import session_lines
from gpuprof.views.formats import formats_of, printed_formats
from gpuprof.views.options import WriteOptions
from tests import builders, reviews
from tests.cli import gpuprof as command_line
from tests.formats import text_formats
from tests.ncu_bytes import A100, simple_report
from tests.table import each_row
from tests.test_figures import TWO, kernel, session
from tests.worded import diagnose, summarised

PRIVATE = "/home/ann.smith/project/gather.cu"
TOKENS = (
    "ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8", "gho_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8",
    "github_pat_11ABCDEFG0aBcDeFgHiJkL_mNoPqRsTuVwXyZ0123456789", "hf_aBcDeFgHiJkLmNoPqRsTuVwXyZaBcDeFgH",
    "sk-proj-a1B2c3D4e5F6g7H8i9J0k1L2", "sk-ant-api03-a1B2c3D4-e5F6g7H8i9J0_k1L2m3N4o5P6", "AKIAIOSFODNN7EXAMPLE",
    "ASIAIOSFODNN7EXAMPLE", "AIzaSyA1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q", "xoxb-123456789012-a1B2c3D4e5F6",
    "glpat-a1B2c3D4e5F6g7H8i9J0", "npm_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8", "pypi-AgEIcHlwaS5vcmcCJGExYjJjM2Q0",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dBjftJeZ4CVP-mB92K27uhbU", "nvapi-a1B2c3D4e5F6g7H8i9J0k1L2m3N4",
    "-----BEGIN RSA PRIVATE KEY-----\\nMIIEow==",
)  # fmt: skip


def revealing() -> Session:
    """A session that names its owner in every kind of text."""
    finding = Finding(
        rule="small-grid", severity="low", confidence="guess", headline=f"in {PRIVATE}", why=f"see {PRIVATE}",
        evidence=(Evidence("m", 1.0, "%", threshold=None, meaning=PRIVATE),),
        action=f"change {PRIVATE}", advice=f"edit {PRIVATE}",
        place=Location(file=PRIVATE, line=3, pc=None, sass=None), gain_kernel=0.1, gain_total=0.1, gain_kind="bound",
    )  # fmt: skip
    code = Excerpt(
        language="source",
        file=PRIVATE,
        weight="samples",
        lines=(CodeLine(number=3, pc=None, text=f'#include "{PRIVATE}"', share=1.0, stalls=()),),
    )
    gap = Missing("x", f"not in {PRIVATE}", f"open {PRIVATE}")
    item = kernel(
        0, {"fp32": 1e9}, {"dram": 1e9}, label=f"f<{PRIVATE}>", ranges=(PRIVATE,), findings=(finding,),
        excerpts=(code,), missing=(gap,),
    )  # fmt: skip
    read = session(item)
    source = replace(
        read.sources[0],
        file="/home/ann.smith/ann.smith-run.ncu-rep",
        command="srun --nodelist=node17 -H node18,node19 ssh ann.smith@login3 USER=ann.smith API_TOKEN=hunter2 ./app",
        warnings=(f"cannot read {PRIVATE}", "C:\\Users\\Ann Smith\\x.cu"),
    )
    read = summarised(replace(read, sources=(source,)))
    assert read.recommendations and read.verdict is not None
    told = RunVerdict(
        sentence=f"f<{PRIVATE}> by ann.smith waits.", kernel=0, state="open", ceiling=None, fraction=None,
        notes=(f"{source.file} is of ann.smith.",), unknown=f"Not in {PRIVATE}.",
        command=f"ncu -o again {source.command}",
    )  # fmt: skip
    return replace(read, verdict=told)


@each_row(
    ("text", "shown"),
    [
        *((text, text) for text in (
            "a / b, c/d/e and x[i]/y/z", "n/data/work", "y = x /dx/dy; h = (a + b) /two/scale;",
            'printf("%d /%d/%d"); get("GET /api/v1/x HTTP")', "/encoder/layer.0/MatMul", '"\\\\n\\\\t\\\\x"',
            "https://docs.nvidia.com/cuda/guide", "../proj/k.cu ./a/k.cu /k.cu", "1./dx/dy + f(x)/y/z /* a *//y/z",
            'printf("x:\\t%d\\n"); printf("\\n\\tx:\\n")')),
        ("/scratch/jane/secret/run, /lustre/x/y", "run, y"),
        ('#include "/home/ann/src/a.cuh"', '#include "a.cuh"'),
        ("-I/home/ann/include", "-Iinclude"),
        ("/tmp/torchinductor_ann/ab/kernel.py", "kernel.py"),
        ("torchinductor_ann", "torchinductor_user"),
        ("/net/host7/home/ann/k.cu", "k.cu"),
        ("in /proj/x7/k.cu, ~/proj/k.cu and E:\\proj\\x7\\k.cu", "in k.cu, k.cu and k.cu"),
        ("in \\\\host7\\proj\\k.cu", "in k.cu"),
        ("file:///proj/x7/k.cu", "file:k.cu"),
    ],
)  # fmt: skip
def test_private_folders_leave_every_text_and_division_stays(text: str, shown: str) -> None:
    assert clean_text(text, KnownPaths(None, frozenset({"proj"}))) == shown


def test_no_text_of_the_session_names_the_owner(tmp_path: Path) -> None:
    text = "\n".join(session_lines(without_private(revealing())))
    for secret in ("ann.", "smith", "Smith", "home", "Users", "node1", "login3", "hunter2", "project"):
        assert secret not in text, secret
    assert "…/gather.cu" in text


def owned(command: str, word: str) -> Session:
    """A session whose command has a folder, and whose kernel has a word in all that its programmer wrote."""
    code = Excerpt(
        language="source",
        file="gather.cu",
        weight="samples",
        lines=(CodeLine(number=3, pc=None, text=f"int x; // written by {word}", share=1.0, stalls=()),),
    )
    read = session(kernel(0, label=f"{word}_gather<int>", ranges=(f"step {word}",), excerpts=(code,)))
    return replace(read, sources=(replace(read.sources[0], command=command),))


def test_a_name_that_a_folder_gives_away_leaves_ranges_labels_and_code() -> None:
    for command in ("/home/jdoe/x", "C:\\Users\\jdoe\\x.exe", "/tmp/torchinductor_jdoe/a.py"):
        for word in ("jdoe", "JDoe"):
            shown = "\n".join(session_lines(without_private(owned(command, word))))
            assert "jdoe" not in shown.lower()
            assert "step user" in shown and "written by user" in shown and "user_gather" in shown
    read = owned("./app", "jdoe")
    assert "jdoe" in "\n".join(session_lines(without_private(read)))


def test_ordinary_words_and_words_of_ours_stay() -> None:
    for word in ("main", "user", "test", "li", "data", "max", "nvidia", "float", "warp", "cutlass", "triton"):
        read = owned(f"/home/{word}/x", word)
        assert without_private(read).kernels is read.kernels
    shown = without_private(owned("/home/compute/sampled/x /home/ncu/y /home/dram/z", "jdoe"))
    assert (shown.sources[0].tool, shown.sources[0].kind) == ("ncu", "ncu-rep")
    assert [ceiling.level for ceiling in shown.ceilings] == [ceiling.level for ceiling in TWO.ceilings]
    clean = without_private(TWO)
    assert without_private(clean) is clean and clean.kernels is TWO.kernels


@each_row("token", TOKENS)
def test_tokens_are_masked_in_texts_and_code(token: str) -> None:
    is_name = not token.startswith(("-", "pypi-", "glpat", "nvapi", "xox", "sk-", "eyJ", "AI"))
    for around in ("load {} x", "f<{}>", "token is '{}'", *(("_Z40{}Pf",) if is_name else ())):
        for clean in (clean_text, clean_code):
            shown = clean(around.format(token))
            assert token[5:20] not in shown and "…" in shown


@each_row(
    ("text", "shown"),
    [
        ("step token=abcdef", "step token=…"),
        ("DB_PASSWORD='two words' x", "DB_PASSWORD='…' x"),
        ("Authorization: Bearer abc.def-ghi", "Authorization: Bearer …"),
        ("run --hf-token abc x", "run --hf-token … x"),
        ("wandb login 0123456789abcdef0123456789abcdef01234567", "wandb login …"),
        ("https://ann:pw@host.corp/x.git", "https://…/x.git"),
        ("mail ann.smith@corp.com now", "mail … now"),
        ("secret::run<Key=int>(a@b)", "secret::run<Key=int>(…)"),
        *((text, text) for text in (
            "sk-gemm-128x256x64-stage", "num_tokens=128 max_token=64 key=uint32_t query, key: 3")),
    ],
)  # fmt: skip
def test_values_of_secret_names_and_logins_are_masked(text: str, shown: str) -> None:
    assert clean_text(text) == shown


def test_names_of_real_kernels_stay() -> None:
    data = Path(__file__).parent / "data"
    names = [
        line for name in ("kernel_names.txt", "kernel_kinds.txt") for line in (data / name).read_text().splitlines()
    ]
    names += [str(path.relative_to(data)) for path in (data / "triton-cache").rglob("*")]
    assert len(names) > 100
    assert [name for name in names if not name.startswith("#") and clean_text(name) != name] == []


@each_row(
    "piece",
    [
        "/", "\\", "/a", "a/", "~/", "token", "password=", "a@", "://", "--", "-----BEGIN ", "eyJ", "sk-", "ghp_",
        "wandb ", "C:/Users/", "/home/", "torchinductor_", "bearer ", "@a.b", "key='", "x.", "SG.",
    ],
)  # fmt: skip
def test_time_grows_with_the_length_of_a_text_and_not_with_its_square(piece: str) -> None:
    text = piece * (20_000 // len(piece))
    for clean in (clean_text, clean_code, reduced_command):
        started_s = time.process_time()
        clean(text + "\x00(")
        assert time.process_time() - started_s < 1


@each_row(
    ("command", "shown"),
    [
        ("ncu --set full -o out ./app", "ncu --set full -o out ./app"),
        ("/opt/ncu/ncu --set full -o /home/ann/c/out ./build/app a b", "ncu --set full -o '…' '…/app' '…'"),
        ("ncu --kernel-name 'regex:^a b$' ./app x", "ncu --kernel-name 'regex:^a b$' ./app '…'"),
        ("ncu -k regex:a|b ./app x 'y", "ncu -k regex:a|b ./app …"),
        ("ncu --target-processes-filter A=secret ./app", "ncu --target-processes-filter '…' ./app"),
        ("ncu --metrics dram__bytes.sum,gpc__cycles ./app", "ncu --metrics dram__bytes.sum,gpc__cycles ./app"),
        ("ncu --cache-control hunter2 ./app", "ncu --cache-control '…' ./app"),
        ("env A=B GPUPROF_SURVEY_BY=torch /usr/bin/python3 -u /h/train.py --lr 3",
         "env GPUPROF_SURVEY_BY=torch python3 -u '…/train.py' '…'"),
        ("env GPUPROF_MARK=/h/out/.gpuprof-marks.json /opt/ncu --nvtx --export /h/out/a.ncu-rep ./app x",
         "env ncu --nvtx --export '…' ./app '…'"),
        ("env GPUPROF_MARK=/h/m.json ./app x", "env ./app '…'"),
        ("srun --nodelist=node17 -n 4 ./app x", "srun '…'"),
        ("C:\\Users\\Ann Smith\\bin\\app.exe --key x", "…/app.exe …"),
        ("gpuprof run --survey /home/ann/acme/t.json --kernel '^f$' -- python train.py --x",
         "gpuprof run --survey '…/t.json' --kernel '^f$' -- python train.py '…'"),
        ("gpuprof run --ncu /tmp/evil -- ./app", "gpuprof run '…'"),
        ("env A=b " * 10_000 + "./app", "env " * 10_000 + "./app"),
        ("", ""),
    ],
)  # fmt: skip
def test_of_a_command_stays_what_is_known_to_be_harmless(command: str, shown: str) -> None:
    assert reduced_command(command) == shown
    assert reduced_command(shown) == shown


PARTS = [
    "a", "'", '"', ";", "$(b)", "`", "-H", "--token=", "token=", "@h", "/home/x", "\\", "~", "key=", "=", "ncu", "env ",
]  # fmt: skip


@given(st.lists(st.sampled_from(PARTS), max_size=9))
def test_what_is_kept_of_a_command_frees_nothing_for_the_shell(parts: list[str]) -> None:
    command = shlex.join(["ncu", "--kernel-name", "".join(parts), *parts, "; rm x"])
    shown = reduced_command(command)
    parsed = shlex.split(shown)
    assert shlex.join(parsed) == shown and "; rm x" not in parsed
    assert reduced_command(shown) == shown


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "acme"
    for place in ("src/kernels/gather.cu", "main.cu"):
        (root / place).parent.mkdir(parents=True, exist_ok=True)
        (root / place).touch()
    (root / ".git").mkdir()
    monkeypatch.chdir(root)
    return root


def test_a_source_file_is_named_by_its_repository(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files, file = SourceFiles(), str(repository / "src/kernels/gather.cu")
    assert files.kept(file) == "src/kernels/gather.cu"
    assert files.kept("/builds/ann/job7/src/kernels/gather.cu") == "src/kernels/gather.cu"
    assert files.kept("C:\\Users\\ann\\job\\src\\kernels\\gather.cu") == "src/kernels/gather.cu"
    assert files.kept("/workspace/main.cu") == "main.cu"
    assert files.kept(str(repository / "gone/k.cu")) == "gone/k.cu"
    for same in ("src/kernels/gather.cu", "other/k.cu", "k.cu", "<string>", ""):
        assert files.kept(same) == same
    monkeypatch.chdir(repository / "src")
    assert SourceFiles().kept(file) == "src/kernels/gather.cu"
    monkeypatch.chdir(repository.parent)
    assert SourceFiles().kept(file) == "src/kernels/gather.cu"


PLANTED_COMMANDS = {
    "s3cret22": "ncu A= -ps3cret22 ./app",
    "s3cret01": "./app s3cret01", "s3cret02": "./app --token s3cret02", "s3cret03": "./app --token=s3cret03",
    "s3cret04": "./app -p s3cret04", "s3cret05": "A=s3cret05 ./app", "s3cret06": "env A=s3cret06 ./app",
    "s3cret07": "ncu bash -c 'export K=s3cret07; ./app'", "s3cret08": "sshpass -p s3cret08 ssh ann@h ./app",
    "s3cret09": "curl -H 'Authorization: Bearer s3cret09' u", "s3cret10": "./app https://u:s3cret10@host/x",
    "node17": "srun --nodelist=node17 ./app", "node18": "mpirun --host node18,node19 -np 2 ./app",
    "jane.roe": "/home/jane.roe/bin/app", "acmecorp": "/projects/acmecorp/app", "wd_acme": "./app --cwd /w/wd_acme/x",
    "s3cret11": "ncu --target-processes-filter S=s3cret11 ./app", "s3cret12": "ncu --env S=s3cret12 ./app",
    "s3cret13": "ncu --export /x/s3cret13/out ./app", "s3cret14": "python /x/s3cret14/train.py",
    "Jane Roe": "C:\\Users\\Jane Roe\\app.exe -k 1", "gehéim": "./app --schlüssel gehéim",
    "s3cret15": "./app 's3cret15",
    "s3cret16": 'ncu --set full ./app "s3cret16', "s3cret17": "python -c 'login(\"s3cret17\")'",
    "s3cret18": "docker run -e T=s3cret18 image ./app", "s3cret19": "torchrun --rdzv-endpoint s3cret19:1 train.py",
    "s3cret20": "ncu --config-file-path /x/s3cret20 ./app", "s3cret21": "sudo -u s3cret21 ./app",
}  # fmt: skip


def outputs_with(file: Path, folder: Path, *options: str) -> Iterator[tuple[str, str]]:
    """Yield every output that gpuprof makes of a file with options, by name; what is typed is in none of them."""
    for form in printed_formats("session"):
        done = command_line("show", file.name, "--format", form, *options, cwd=folder)
        assert done.returncode == 0, done.stderr
        yield f"show {form}", done.stdout + done.stderr
    for form in printed_formats("comparison"):
        done = command_line("compare", file.name, file.name, "--format", form, *options, cwd=folder)
        yield f"compare {form}", done.stdout + done.stderr
    command_line("report", file.name, "-o", "page.html", "--force", *options, cwd=folder)
    page = (folder / "page.html").read_text()
    yield "page", page
    yield "packed", "\n".join(session_lines(read_session_html(page.encode(), "page.html")))
    command_line("roofline", file.name, "-o", "r.svg", "--force", *options, cwd=folder)
    if (folder / "r.svg").exists():
        yield "svg", (folder / "r.svg").read_text()
    loaded = gpuprof.load(file, keep_private="--keep-private" in options)
    yield "notebook", loaded._repr_html_() + repr(loaded)
    yield "session", "\n".join(session_lines(loaded))


METRICS: dict[str, float | str] = {
    **A100, "gpu__time_duration.sum": 5000.0, "sm__throughput.avg.pct_of_peak_sustained_elapsed": 50.0,
    "dram__bytes.sum": 1e6,
}  # fmt: skip


def test_planted_commands_reach_no_output_unless_they_are_to_stay() -> None:
    for secret, command in PLANTED_COMMANDS.items():
        read = owned(command, "x")
        text = "\n".join(session_lines(without_private(read)))
        assert secret not in text and json.dumps(secret)[1:-1] not in text, command
        assert secret in "\n".join(session_lines(read)), command


def test_what_is_planted_in_a_report_reaches_no_output_of_any_command(tmp_path: Path) -> None:
    planted = ("ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8", "hunter2x", "node17", "acmecorp", "jane.roe")
    command = f"/home/jane.roe/ncu -o /data/acmecorp/x ./app --token {planted[1]} --host node17"
    place = tmp_path / "run.ncu-rep"
    place.write_bytes(simple_report([(f"gather_{planted[0]}", METRICS), ("other", METRICS)], command=command))
    for name, text in outputs_with(place, tmp_path):
        assert [secret for secret in planted if secret in text] == [], name
    kept = dict(outputs_with(place, tmp_path, "--keep-private"))
    assert all(secret in kept["show json"] and secret in kept["packed"] for secret in planted)
    old = tmp_path / "old.json"
    old.write_text(kept["show json"])
    for name, text in outputs_with(old, tmp_path):
        assert [secret for secret in planted if secret in text] == [], name


@each_row(
    ("kernel", "ranges"),
    [
        (f"{'a' * 47}_{TOKENS[0]}", ()),
        (f"triton_poi_fused_add_{TOKENS[0]}_and_what_follows_it_in_a_long_name_0_1_2", ()),
        (f"void f<lib::very::long::names::of::{TOKENS[0]}, int, float, double, float>(int)", ()),
        ("Kernel", ("load https://R8R8R8R8:R8R8R8R8@R8R8R8R8.example/data/x",)),
    ],
)
def test_a_label_that_is_cut_keeps_no_part_of_what_is_planted(kernel: str, ranges: tuple[str, ...]) -> None:
    report = builders.report(replace(builders.launch(METRICS, name=kernel), ranges=ranges))
    analysis = analyse([report], builders.hardware_of, "1")
    text = "\n".join(session_lines(without_private(diagnose(with_clean_labels(analysis)))))
    assert [part for part in ("a1B2", "o5P6", "R8R8") if part in text] == []


def test_a_review_names_no_folder_outside_of_its_repository(repository: Path) -> None:
    private, made = "/home/ann.smith/acmecorp/gather.cu", reviews.everything()
    first, *others = made.kernels
    finding = reviews.finding("uncoalesced-global", reviews.place(file=private))
    first = replace(first, origin=f"{private}[a.o]", findings=(finding,), notes=(f"see {private}",))
    review = replace(made, files=(private,), tools=(f"nvcc -I{private}",), kernels=(first, *others))
    clean = without_private(review)
    forms = formats_of("review")
    for form in text_formats("review"):
        text = "\n".join(forms[form].lines(clean, WriteOptions(0)))
        assert "ann.smith" not in text and "acmecorp" not in text, form
    assert "acmecorp" in "\n".join(forms["json"].lines(review, 0))


OURS = {
    "gpuprof_version", "sha256", "tool", "tool_version", "clock_control", "cache_control", "driver", "target",
    "compute_capability", "spec", "id", "duration_source", "definition", "held", "metric", "unit", "what",
    "ceiling_path", "direction", "before", "ceiling", "fact", "measure", "implied_by", "opcode",
    "role", "of", "assumes",
}  # fmt: skip
"""Texts that gpuprof, ncu and the driver write, and no user."""
OF_CLEAN_RECORDS = {BuildChange, GateCheck, Acceptance}
"""Parts of a review that are made of reviews without private texts."""


@each_row("record", [Session, Review, Listing])
def test_every_text_of_a_contract_is_looked_at_or_is_ours(record: type[Struct]) -> None:
    texts = [(kind, name) for kind, name in texts_in(record, set()) if kind not in OF_CLEAN_RECORDS]
    unknown = [f"{kind.__name__}.{name}" for kind, name in texts if name not in {*KINDS, *OURS}]
    assert unknown == []


def texts_in(record: type[Struct], seen: set[type]) -> Iterator[tuple[type, str]]:
    seen.add(record)
    for name, hint in get_type_hints(record, include_extras=True).items():
        below = list(records_in(hint))
        if not below and is_text(hint) and name != "source_lines":
            yield record, name
        for part in below:
            if part not in seen:
                yield from texts_in(part, seen)
