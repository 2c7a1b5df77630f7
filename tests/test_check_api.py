"""`gpuprof.check` in Python, and what a user may write of architectures, sizes and arguments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import gpuprof
from gpuprof.errors import UsageError
from gpuprof.model.kernel_match import kernel_pattern
from gpuprof.review import review as reviewing
from gpuprof.review.inputs.request import ReviewRequest
from gpuprof.review.options import arguments_of, block_of, bytes_of, grid_of, macros_of, targets_of
from tests import reviews as made
from tests.table import each_row


def test_what_is_asked_for_in_python_is_the_request_of_the_command_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[ReviewRequest] = []
    answer = made.review(made.kernel())

    def review(request: ReviewRequest, _version: str) -> object:
        asked.append(request)
        return answer

    monkeypatch.setattr(reviewing, "review", review)
    given = gpuprof.check(
        tmp_path / "k.cu", arch=["sm_90"], block=(256, 1, 1), grid=64, dynamic_shared="1 KiB", args={"n": 4096, 0: -1},
        kernel="#2", defines=["A=1"], include=[tmp_path], std="c++20", flags=["-use_fast_math"],
    )  # fmt: skip
    assert given is answer
    assert asked == [
        ReviewRequest(
            files=(str(tmp_path / "k.cu"),), targets=("sm_90",), kernel=kernel_pattern("#2", ""),
            block=(256, 1, 1), grid=(64, 1, 1),
            dynamic_shared_bytes=1024, arguments={"n": 4096, "0": -1}, defines=("A=1",),
            include_folders=(str(tmp_path),), standard="c++20", flags=("-use_fast_math",),
        )
    ]  # fmt: skip


@each_row(
    "wrong",
    [{"block": (0,)}, {"block": ()}, {"block": (1, 2, 3, 4)}, {"arch": "x"}, {"args": {"n": 1.5}},
     {"args": {"n": True}}, {"dynamic_shared": -1}, {"include": ["nowhere"]}, {"kernel": "["},
     {"flags": "-use_fast_math"}],
    ids=str,
)  # fmt: skip
def test_what_an_argument_cannot_be_is_a_usage_error(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError) as error:
        gpuprof.check("k.cu", **wrong)
    assert error.value.hint


def test_architectures_sizes_and_values_can_be_written_in_several_ways() -> None:
    assert targets_of(["sm_90", "90", "9.0", "compute_90"]) == ("sm_90",)
    assert targets_of(["10.0, sm_90a", "12.0"]) == ("sm_100", "sm_90a", "sm_120")
    assert targets_of([]) == ()
    assert block_of("256") == (256, 1, 1)
    assert block_of("16x16") == block_of("16, 16, 1") == block_of((16, 16)) == (16, 16, 1)
    assert block_of("1024") == (1024, 1, 1)
    assert grid_of("2147483647,65535,65535") == (2**31 - 1, 65_535, 65_535)
    assert [bytes_of(text) for text in ("49152", "48KiB", "48 KiB", 0, "1kB")] == [49152, 49152, 49152, 0, 1000]
    assert arguments_of(["a=0x10", "1=-3", "b=4K", "c=4Ki", "002=1", "d=1M"]) == {
        "a": 16, "1": -3, "b": 4000, "c": 4096, "2": 1, "d": 1_000_000,
    }  # fmt: skip
    assert macros_of(["N", "N=4", "F(x)=x", "S=a b"]) == ("N", "N=4", "F(x)=x", "S=a b")
    for text in ("", "-I/etc", "4", "=4", "a-b", "N=\0"):
        with pytest.raises(UsageError):
            macros_of([text])


@given(st.text(max_size=40))
@example("0\x1f")
def test_any_text_is_a_value_or_a_usage_error(text: str) -> None:
    for read in (block_of, grid_of, bytes_of, lambda given: targets_of([given]), lambda given: arguments_of([given])):
        try:
            read(text)
        except UsageError as error:
            assert error.hint
