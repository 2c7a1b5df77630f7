"""Probes compiled by NVRTC 12.9, 13.0 and 13.5 pass their gates.

Each lies in a folder of its own, .nvrtc/RELEASE, where .ci/run puts it; a test without its NVRTC is skipped. All
variants are compiled for Hopper, and one probe of each family for every other target that the NVRTC knows; once that
has passed, one of each family. GPUPROF_ALL_VARIANTS=1 checks all variants on all targets (make test-all).
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from pathlib import Path

import pytest

from gpuprof.characterize.gates.check import Variant, check, variants
from gpuprof.characterize.probes.probe import all_targets
from gpuprof.code.tools.compile import target_options
from gpuprof.code.tools.disassemble import find_disassemblers
from gpuprof.code.tools.nvrtc import Nvrtc
from tests import kept, kept_tools
from tests.cuda_tools import needs_cuda_wheels
from tests.table import each_row
from tests.test_probe_gates import PROBES, judges, key_of

FOLDER = Path(__file__).resolve().parents[1] / ".nvrtc"
HOPPER = ("sm_90a",)
RELEASES = ("12.9", "13.0", "13.5")
PASSED = "passed-gates-of-a-release"
TRIAL = 'extern "C" __global__ void one(float *p) { p[threadIdx.x] = __fmaf_rn(p[0], p[1], sinf(p[2])); }'
ALONE = """
import hashlib, sys
from pathlib import Path
from gpuprof.code.tools.nvrtc import Nvrtc
library, source, *options = sys.argv[1:]
print(hashlib.sha256(Nvrtc(Path(library)).compile(source, "one.cu", options).cubin or b"").hexdigest())
"""


@lru_cache
def nvrtc_of(release: str) -> Nvrtc:
    """The NVRTC of a release; skips where it is not there."""
    found = sorted((FOLDER / release).glob("nvidia/*/lib/libnvrtc.so.1?"))
    if not found:
        pytest.skip(f"there is no NVRTC in .nvrtc/{release} (.ci/run installs it)")
    return Nvrtc(found[0])


def chosen(nvrtc: Nvrtc, *, known_good: bool) -> Iterator[Variant]:
    """All variants for Hopper, the default variant of a family's first probe for each other target that it knows."""
    for target in filter(nvrtc.knows, all_targets()):
        families = set()
        for probe in PROBES:
            every = kept.EVERYTHING or (target in HOPPER and not known_good)
            if every or (target in probe.targets and probe.family not in families):
                families.add(probe.family)
                yield from islice(variants(probe, target), None if every else 1)


def key(nvrtc: Nvrtc) -> str | None:
    """The hash of all that the gates follow from."""
    tools = [kept_tools.compiler_key(nvrtc), *map(kept_tools.tool_key, find_disassemblers()), *judges()]
    keys = [key_of(probe, tools) for probe in PROBES]
    return None if None in keys else kept.key_of(keys, kept.hash_of(Path(__file__)))


@needs_cuda_wheels
@pytest.mark.timeout(1200)
@each_row("release", RELEASES)
def test_gates_are_passed_by_the_code_of_each_release(release: str) -> None:
    nvrtc = nvrtc_of(release)
    assert str(nvrtc) == f"NVRTC {release}"
    mark = key(nvrtc)
    known_good = mark is not None and kept.read(PASSED, mark) is not None
    looked_at = list(chosen(nvrtc, known_good=known_good))
    assert {variant.target for variant in looked_at} > {"sm_75", "sm_90a", "sm_120a"}
    wrong = []
    for item in check(looked_at, nvrtc=nvrtc):
        target, probe = item.variant.target, item.variant.probe.id
        assert item.compiled is None or item.compiled.compiler == str(nvrtc)
        if item.judgement.gate not in {"pass", "emulated"} and not (item.judgement.gate is None and target == "sm_70"):
            wrong.append(f"{probe} {target} {dict(item.variant.assignment)}: {item.judgement.why}")
    assert not wrong, "\n".join(wrong)
    if mark is not None:
        kept.write(PASSED, mark, b"passed")


@needs_cuda_wheels
@pytest.mark.usefixtures("tools_themselves")
def test_several_releases_in_one_process_compile_as_each_does_alone() -> None:
    every = [nvrtc_of(release) for release in RELEASES]
    options = target_options("sm_90a")
    for nvrtc in (*every, *reversed(every)):
        words = [sys.executable, "-c", ALONE, str(nvrtc.path), TRIAL, *options]
        alone = subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
        cubin = nvrtc.compile(TRIAL, "one.cu", options).cubin
        assert cubin is not None
        assert hashlib.sha256(cubin).hexdigest() == alone
