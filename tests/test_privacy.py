"""What leaves the machine with a page: no folder, user, host or secret, in any text of a session."""

from __future__ import annotations

import shlex

import pytest
from gpuprof.present.privacy import (
    with_file_names,
    without_folders,
    without_private,
    without_private_folders,
)
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gpuprof.diagnose.summary import summarised
from gpuprof.model.recorded import Missing
from gpuprof.model.session import CodeLine, Evidence, Excerpt, Finding, LineWork, Location, RunVerdict, Session
from gpuprof.present.file_names import file_name
from gpuprof.present.html import render_html
from gpuprof.present.markdown import markdown_lines
from gpuprof.present.notebook_html import notebook_html
from gpuprof.store.write import session_lines
from tests.test_figures import TWO, kernel, session

PRIVATE = "/home/ann.smith/project/gather.cu"


def revealing() -> Session:
    """A session that names its owner in every kind of text."""
    finding = Finding(
        rule="small-grid", severity="low", confidence="guess", headline=f"in {PRIVATE}", why=f"see {PRIVATE}",
        evidence=(Evidence("m", 1.0, "%", threshold=None, meaning=PRIVATE),),
        action=f"change {PRIVATE}", advice=f"edit {PRIVATE}",
        location=Location(file=PRIVATE, line=3, pc=None, sass=None), gain_kernel=0.1, gain_total=0.1, gain_kind="bound",
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
    assert read.opportunities and read.verdict is not None
    told = RunVerdict(
        sentence=f"f<{PRIVATE}> by ann.smith waits.", kernel=0, state="open", ceiling=None, fraction=None,
        notes=(f"{source.file} is of ann.smith.",), unknown=f"Not in {PRIVATE}.",
        command=f"ncu -o again {source.command}",
    )  # fmt: skip
    return replace(read, verdict=told)


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("/opt/ncu/ncu --set full -o out ./build/app", "ncu --set full -o out app"),
        ("env LD_LIBRARY_PATH=/home/ann/lib:/usr/lib app", "env LD_LIBRARY_PATH=lib:lib app"),
        ("app --home=/home/ann --data /Users/ann/ ../x/y.bin", "app --home=~ --data ~ y.bin"),
        ("C:\\Users\\ann\\app.exe --nvtx-include Fused-GEMM/", "app.exe --nvtx-include Fused-GEMM"),
        ("C:\\Users\\Ann Smith\\bin\\app.exe", "app.exe"),
        ("app --rate 3/s /", "app --rate s /"),
        ("ncu --set full", "ncu --set full"),
        ("ncu -o out ./app ./", "ncu -o out ./app ."),
    ],
)
def test_commands_lose_the_folders_of_their_paths(command: str, shown: str) -> None:
    assert without_folders(command) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a / b, c/d/e and x[i]/y/z", "a / b, c/d/e and x[i]/y/z"),
        ("n/data/work", "n/data/work"),
        ("y = x /dx/dy; h = (a + b) /two/scale;", "y = x /dx/dy; h = (a + b) /two/scale;"),
        ('printf("%d /%d/%d"); get("GET /api/v1/x HTTP")', 'printf("%d /%d/%d"); get("GET /api/v1/x HTTP")'),
        ("/encoder/layer.0/MatMul", "/encoder/layer.0/MatMul"),
        ("/scratch/jane/secret/run, /lustre/x/y", "run, y"),
        ("https://docs.nvidia.com/cuda/guide", "https://docs.nvidia.com/cuda/guide"),
        ('#include "/home/ann/src/a.cuh"', '#include "a.cuh"'),
        ("-I/home/ann/include", "-Iinclude"),
        ("cd /home/ann && make", "cd ~ && make"),
        ("/tmp/torchinductor_ann/ab/kernel.py", "kernel.py"),
        ("torchinductor_ann", "torchinductor_ann"),
        ("x /torchinductor_ann", "x /torchinductor_user"),
        ("D:\\home\\ann\\k.cu:12", "k.cu:12"),
        ("/net/host7/home/ann/k.cu", "k.cu"),
        ("/scratch/ann/k.cu(41)", "k.cu(41)"),
        ("in /proj/x7/k.cu, ~/proj/k.cu and E:\\proj\\x7\\k.cu", "in k.cu, k.cu and k.cu"),
        ("//proj/x7/k.cu", "//k.cu"),
        ("in \\\\host7\\proj\\k.cu", "in k.cu"),
        ('"\\\\n\\\\t\\\\x"', '"\\\\n\\\\t\\\\x"'),
        ("file:///proj/x7/k.cu", "file:k.cu"),
        ("../proj/k.cu ./a/k.cu /k.cu", "../proj/k.cu ./a/k.cu /k.cu"),
        ("1./dx/dy + f(x)/y/z /* a *//y/z", "1./dx/dy + f(x)/y/z /* a *//y/z"),
        ('printf("x:\\t%d\\n"); printf("\\n\\tx:\\n")', 'printf("x:\\t%d\\n"); printf("\\n\\tx:\\n")'),
    ],
)
def test_private_folders_leave_every_text_and_division_stays(text: str, shown: str) -> None:
    assert without_private_folders(text, {"proj"}) == shown


def test_layers_that_are_named_like_paths_stay_and_paths_of_the_session_s_folders_go() -> None:
    names = ("/encoder/layer.0/MatMul", "load /scratch/ann/images", "/home/ann/images")
    code = Excerpt(language="source", file="/scratch/ann/k.cu", weight="samples", lines=())
    (shown,) = without_private(session(kernel(0, label=names[0], ranges=names, excerpts=(code,)))).kernels
    assert shown.label == names[0]
    assert shown.ranges == (names[0], "load images", "images")


@pytest.mark.parametrize("path", ["/home/ann/a.ncu-rep", "C:\\Users\\ann\\a.ncu-rep", "a.ncu-rep"])
def test_a_file_is_its_name(path: str) -> None:
    assert file_name(path) == "a.ncu-rep"


def test_no_text_of_the_session_names_the_owner() -> None:
    text = "\n".join(session_lines(without_private(revealing())))
    for secret in ("ann.", "smith", "Smith", "home", "Users", "node1", "login3", "hunter2", "project"):
        assert secret not in text, secret
    assert "gather.cu" in text
    assert "user-run.ncu-rep" in text


def test_what_is_pasted_into_reviews_has_no_folder_and_no_secret_in_its_command() -> None:
    read = revealing()
    for text in ("\n".join(markdown_lines(read, list(read.kernels), 20)), notebook_html(read)):
        assert "To collect what is missing" in text
        for secret in ("hunter2", "node17", "node18", "login3", "/home"):
            assert secret not in text.split("To collect what is missing")[1].split("f\\<")[0].split("<table")[0], secret


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (["ncu", "./app", "x token=abc", "; rm x ;"], "ncu ./app 'x token=…' '; rm x ;'"),
        (["ncu", "./app", "--token=two words it's", "-v"], "ncu ./app '--token=…' -v"),
        (["ncu", "./app", "--password", "a'b $(c)", "-H", "n1,n2"], "ncu ./app --password '…' -H '…'"),
        (["ncu", "-o", "token_embedding-full", "python", "x.py"], "ncu -o token_embedding-full python x.py"),
        (["ncu", "--kernel-name", r"regex:^operator\(\)$", "./a"], r"ncu --kernel-name 'regex:^operator\(\)$' ./a"),
        (["ncu", "--nvtx-include", "step/", "/home/ann.smith/b/run"], "ncu --nvtx-include step/ '…/run'"),
        (["ncu", "python", "a/train.py", "--data=/data/x/y", "../z"], "ncu python '…/train.py' '--data=…/y' '…/z'"),
    ],
)
def test_a_command_without_secrets_is_still_quoted_and_names_no_other_program(arguments: list[str], shown: str) -> None:
    read = revealing()
    assert read.verdict is not None
    secret = replace(read, verdict=replace(read.verdict, command=shlex.join(arguments)))
    for short in (without_private(secret), with_file_names(secret)):
        assert short.verdict is not None and short.verdict.command == shown


PARTS = ["a", "'", '"', ";", "$(b)", "`", "-H", "--token=", "token=", "@h", "/home/x", "\\", "~", "key=", "="]


@given(st.lists(st.sampled_from(PARTS), max_size=9))
def test_what_is_masked_in_a_command_frees_nothing_for_the_shell(parts: list[str]) -> None:
    read = revealing()
    assert read.verdict is not None
    arguments = ["ncu", "".join(parts), " ".join(parts), *parts, "; rm x"]
    secret = replace(read, verdict=replace(read.verdict, command=shlex.join(arguments)))
    for short in (without_private(secret), with_file_names(secret)):
        assert short.verdict is not None and short.verdict.command is not None
        shown = shlex.split(short.verdict.command)
        assert len(shown) == len(arguments) and shlex.join(shown) == short.verdict.command


def test_notes_name_files_without_their_folders() -> None:
    read = revealing()
    assert read.verdict is not None
    sources = tuple(replace(read.sources[0], file=f"runs/{name}.ncu-rep") for name in ("base", "fused"))
    note = "runs/base.ncu-rep and runs/fused.ncu-rep hold the same kernels."
    two = replace(read, sources=sources, verdict=replace(read.verdict, notes=(note,)))
    for short in (without_private(two), with_file_names(two)):
        assert short.verdict is not None
        assert short.verdict.notes == ("base.ncu-rep and fused.ncu-rep hold the same kernels.",)


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


@pytest.mark.parametrize("command", ["/home/jdoe/x", "C:\\Users\\jdoe\\x.exe", "/tmp/torchinductor_jdoe/a.py"])
@pytest.mark.parametrize("word", ["jdoe", "JDoe"])
def test_a_name_that_a_folder_gives_away_leaves_ranges_labels_and_code(command: str, word: str) -> None:
    page = render_html(owned(command, word))
    assert "jdoe" not in page.lower()
    assert "step user" in page and "written by user" in page and "user_gather" in page
    assert "jdoe" in render_html(owned(command, word)).lower()


def test_a_source_file_gives_its_owner_away_too() -> None:
    read = owned("./app", "jdoe")
    assert "jdoe" in render_html(read)
    (one,) = read.kernels
    excerpt = replace(one.excerpts[0], file="/home/jdoe/gather.cu")
    assert "jdoe" not in render_html(replace(read, kernels=(replace(one, excerpts=(excerpt,)),)))


def test_lines_lose_their_folders_and_their_owner() -> None:
    read = owned("./app", "x")
    work = LineWork(
        file="/home/jdoe/k/gather.cu", number=3, text='f("/home/jdoe/data"); // by jdoe', instructions=1.0, local=None,
        samples=None,
    )  # fmt: skip
    (kernel_of_lines,) = read.kernels
    (shown,) = without_private(replace(read, kernels=(replace(kernel_of_lines, lines=(work,)),))).kernels[0].lines
    assert (shown.file, shown.text) == ("gather.cu", 'f("data"); // by user')


@pytest.mark.parametrize(
    "word", ["main", "user", "test", "li", "data", "max", "nvidia", "float", "warp", "cutlass", "triton"]
)
def test_ordinary_words_stay_in_names_and_code(word: str) -> None:
    read = owned(f"/home/{word}/x", word)
    assert without_private(read).kernels is read.kernels


def test_words_of_ours_are_not_taken_for_names() -> None:
    shown = without_private(owned("/home/compute/sampled/x /home/ncu/y /home/dram/z", "jdoe"))
    assert shown.sources[0].tool == "ncu" and shown.sources[0].kind == "ncu-rep"
    assert [ceiling.level for ceiling in shown.ceilings] == [ceiling.level for ceiling in TWO.ceilings]


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("srun -w gpu-node-07 ./app -w 12", "srun -w … ./app -w 12"),
        ("srun -n 4 --nodelist=gpu-[01-04],x app", "srun -n 4 --nodelist=… app"),
        ("srun -n 4 ./app -w 1024", "srun -n 4 ./app -w 1024"),
        ("app --wandb-key=abc x", "app --wandb-key=… x"),
        ("app --key=AKIA123 --key AKIA123 y", "app --key=… --key … y"),
        ("wandb login 0123abcd && app", "wandb login … && app"),
        ("wandb login --relogin 0123abcd", "wandb login --relogin …"),
        ("app --hf_token 'a b' z", "app --hf_token … z"),
        ('app --hf_token="a b" z', "app --hf_token=… z"),
        ("app '--hf_token=a b' z", "app '--hf_token=…' z"),
        ("AWS_SECRET_ACCESS_KEY=a DB_PASSWORD='b c' app", "AWS_SECRET_ACCESS_KEY=… DB_PASSWORD=… app"),
        ("curl -H 'Authorization: Bearer abc' u", "curl -H … u"),
        ("git clone https://jdoe:pw!x@host/x.git", "git clone https:x.git"),
        ("app --use-token --sort key 5", "app --use-token --sort key 5"),
    ],
)
def test_commands_lose_hosts_and_secrets(command: str, shown: str) -> None:
    assert without_private(owned(command, "x")).sources[0].command == shown


def test_neither_the_page_nor_what_it_carries_names_the_owner(tmp_path: object) -> None:
    from gpuprof.store.page import read_session_html

    page = render_html(revealing())
    carried = "\n".join(session_lines(read_session_html(page.encode(), "page.html")))
    for secret in ("ann.smith", "Smith", "/home", "node17", "login3", "hunter2"):
        assert secret not in page
        assert secret not in carried
    assert "ann.smith" in render_html(revealing())


def test_a_session_without_private_texts_stays_the_same() -> None:
    clean = without_private(TWO)
    assert without_private(clean) == clean
    assert clean.kernels is TWO.kernels
