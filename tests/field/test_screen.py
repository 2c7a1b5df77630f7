"""The screen of `gpuprof show` on reports and traces of others, and what it says to type next."""

from __future__ import annotations

import re

from gpuprof.words.recommendations import recommendation_texts
from tests.cli import gpuprof as run
from tests.field.folder import report
from tests.readings import session_of
from tests.test_screen import commands_aside, screen, table

BASELINE = "gpu_workshop-MW_Baseline.ncu-rep"


def test_traces_and_tables_take_a_screen_with_fixes_and_rows() -> None:
    for name in ("csv/interpolate-with-program-output.csv", "sglang-profile.ncu-rep",
                 "traces/resnet50-v100.pt.trace.json.gz"):  # fmt: skip
        read = session_of(report(name), groups=True)
        for width in (80, 100, 140):
            text = screen(read, width)
            assert max(map(len, commands_aside(text))) <= width and len(table(text)) >= 4
            assert width != 100 or len(text.splitlines()) + 1 <= 30
    text = screen(session_of(report("csv/interpolate-with-program-output.csv"), groups=True), 80)
    assert re.search(r" {25}upsample_bilinear2d_out_frame<float, float>\n {25}\(45 launches, 34 %\), inferred", text)
    read = session_of(report(BASELINE))
    told = " ".join(screen(read, width=200).split())
    assert told.startswith("compute_tendencies_x_279_gpu (40 %") and "70 %" in told[:100]
    assert all(told.count(" ".join(item.headline.split())[:40]) == 1 for item in recommendation_texts(read))
    (settled,) = (item for item in read.recommendations if item.confidence == "guess")
    assert settled.gain_after == 0 and settled.rule == "non-fused-fp"
    assert "non-fused-fp" not in {item.rule for item in recommendation_texts(read)}


def test_what_is_next_is_what_is_to_be_fixed_first() -> None:
    for name, options, following in (
        (BASELINE, (), " --kernel '#2'\n"),
        (BASELINE, ("--kernel", "#4"), " --explain '#4'\n"),
        (BASELINE, ("-v",), " --explain '#2'\n"),
        ("cuda_learning_mojo-profile.ncu-rep", ("--sort", "time"), " --kernel '#2'\n"),  # the longest only warms up
        ("cuda_learning_mojo-profile.ncu-rep", ("--sort", "launch"), " --kernel '#0'\n"),
        ("sglang-profile.ncu-rep", ("--sort", "time"), " --kernel '#2'\n"),  # that of the verdict has no numbers
        ("traces/miniweather-gp100.nsys.sqlite", (), " -v\n"),
    ):
        assert run("show", report(name), *options).stderr.endswith(f"{report(name)}{following}")
