"""What ncu says when it fails, and what gpuprof makes of it: ncu 2024.1's own words, or reported by its users."""

from __future__ import annotations

import pytest

from gpuprof.collect.failures import failures_in, failures_of, said, unknown_failure
from gpuprof.errors import EnvironmentProblem, ProgramFailed, UsageError

CASES = (
    (
        "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters on "
        "the target device 0. For instructions on enabling permissions and to get more information see "
        "https://developer.nvidia.com/ERR_NVGPUCTRPERM",
        "permission",
        "NVreg_RestrictProfilingToAdminUsers=0",
    ),
    (
        "==ERROR== An error was reported by the driver: Profiling failed because a driver resource was unavailable. "
        "Ensure that no other tool (like DCGM) is concurrently collecting profiling data.",
        "counters-busy",
        "dcgmi profile --pause",
    ),
    ("==ERROR== Cuda driver is not compatible with Nsight Compute.", "driver-too-old", "--ncu"),
    (
        "==ERROR== Nsight Compute failed to connect to the CUDA driver (stub libcuda.so[.1] on path?).",
        "no-driver",
        "gpuprof doctor",
    ),
    (
        "==ERROR== Another tool/injection might be loaded since CUDA_INJECTION64_PATH is set to /opt/lib/x.so. "
        "Please unset it.",
        "injection",
        "unset CUDA_INJECTION64_PATH",
    ),
    (
        "==ERROR== Cuda is initialized before the tool, e.g. by calling a Cuda API from a static initializer.",
        "initialised-too-early",
        "main()",
    ),
    ("==ERROR== ERR_NVCMPGPU - Unsupported GPU", "gpu-unsupported", "--ncu"),
    (
        "==WARNING== Kernel nodes of a graph which can have conditional nodes are not supported for profiling.",
        "graph-nodes",
        "--graphs graph",
    ),
    (
        "==ERROR== Insufficient free memory for profiling on the device. Consider the following options",
        "memory",
        "--replay application",
    ),
    (
        "==ERROR== Failed to open/create lock file /tmp/nsight-compute-lock. Please check that this process has write "
        "permissions on this file.",
        "lock",
        "TMPDIR",
    ),
    ("==ERROR== Could not determine user home directory for section deployment.", "home", "HOME"),
    (
        "==WARNING== Launching the workload is taking more time than expected. If this continues to hang, terminate "
        "the profile and re-try by profiling the range of all related launches using '--replay-mode range'",
        "hang",
        "communication kernels",
    ),
    ("==ERROR== Failed to prepare kernel for profiling", "prepare", "gpuprof doctor"),
    ("==ERROR== unrecognised option '--nonsense'. Use --help for further details.", "options", "--ncu"),
    ("==WARNING== No kernels were profiled.", "no-kernels", "--kernel"),
)


@pytest.mark.parametrize(("text", "cause", "hint"), CASES, ids=[case[1] for case in CASES])
def test_a_known_failure_ends_in_its_cause_and_what_to_type(text: str, cause: str, hint: str) -> None:
    (failure,) = failures_in(f"==PROF== Connected to process 7\n{text}\n")
    assert failure.cause == cause
    assert hint in failure.hint
    error = failure.error("run/profile.log")
    assert error.message == failure.what
    assert error.hint is not None and error.hint.endswith("ncu's log is run/profile.log")


NO_DRIVER = "==ERROR== Nsight Compute failed to connect to the CUDA driver (stub libcuda.so[.1] on path?)."


def test_the_cause_that_explains_the_others_comes_first() -> None:
    # As ncu 2024.1 prints it on a machine without a GPU.
    text = (
        "==ERROR== Nsight Compute failed to connect to the CUDA driver (stub libcuda.so[.1] on path?).\n"
        "==ERROR== The application returned an error code (1).\n==WARNING== No kernels were profiled.\n"
    )
    assert [failure.cause for failure in failures_in(text)] == ["no-driver", "program-failed", "no-kernels"]
    assert isinstance(failures_in(text)[0].error(), EnvironmentProblem)


def test_a_failed_program_is_no_problem_of_the_environment() -> None:
    (failure,) = failures_in("==ERROR== The application returned an error code (139).")
    assert failure.what == "the program ended with code 139"
    assert isinstance(failure.error(), ProgramFailed)


def test_a_program_that_is_not_there_is_a_wrong_command_line() -> None:
    text = "==ERROR== '/nonexist' does not exist or is not an executable. Please make sure to specify the absolute path"
    (failure,) = failures_in(text)
    assert isinstance(failure.error(), UsageError)
    assert failure.what == "/nonexist does not exist or cannot be run"


def test_refused_metrics_are_named_over_all_messages() -> None:
    text = (
        "==WARNING== Unable to access the following 2 metrics: ctc__rx_bytes_data_user.sum, dram__bytes.sum\n"
        "==ERROR== Failed to access the following 1 metrics: lts__t_sectors.sum\n"
    )
    (failure,) = failures_in(text)
    assert failure.metrics == ("ctc__rx_bytes_data_user.sum", "dram__bytes.sum", "lts__t_sectors.sum")
    assert failure.remedy == "without-metrics"


def test_what_the_program_prints_is_no_message_of_ncu() -> None:
    assert failures_in("No kernels were profiled.\nERR_NVGPUCTRPERM\nInsufficient free memory for profiling") == ()


def test_nothing_is_tried_because_of_what_stands_on_stderr_alone() -> None:
    memory = "==ERROR== Insufficient free memory for profiling on the device."
    (told,) = failures_of("", memory)
    assert (told.cause, told.remedy) == ("memory", None)
    assert failures_of(memory, memory)[0].remedy == "application-replay"
    both = failures_of("==WARNING== No kernels were profiled.", NO_DRIVER)
    assert [failure.cause for failure in both] == ["no-driver", "no-kernels"]


def test_an_unknown_failure_shows_ncus_last_words() -> None:
    text = "".join(f"==ERROR== reason {number}\n" for number in range(5))
    failure = unknown_failure(text, 9)
    assert failure.what == "ncu ended with code 9: reason 2 / reason 3 / reason 4"
    assert unknown_failure("", 1).what == "ncu ended with code 1"
    assert list(said("==PROF== x\n==ERROR==  y \n")) == ["y"]
