"""Probes compiled by NVRTC 12.9, 13.0 and 13.5 pass their gates.

Each lies in a folder of its own, .nvrtc/RELEASE, where .ci/run puts it; a test without its NVRTC is skipped.
GPUPROF_ALL_VARIANTS=1 checks all variants on all targets (make test-all).
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import pytest

from gpuprof.characterize.gates.check import Variant, check, variants
from gpuprof.characterize.probes.probe import all_targets
from gpuprof.sass.tools.compile import target_options
from gpuprof.sass.tools.nvrtc import Nvrtc
from tests.cuda_tools import ALL_VARIANTS, needs_cuda_wheels
from tests.test_probe_gates import PROBES

FOLDER = Path(__file__).resolve().parents[1] / ".nvrtc"
RELEASES = ("12.9", "13.0", "13.5")
TRIAL = 'extern "C" __global__ void one(float *p) { p[threadIdx.x] = __fmaf_rn(p[0], p[1], sinf(p[2])); }'
ALONE = """
import hashlib, sys
from pathlib import Path
from gpuprof.sass.tools.nvrtc import Nvrtc
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


def chosen(nvrtc: Nvrtc) -> Iterator[Variant]:
    """The default variant of each family's first probe for Hopper, of one of them for each other target it knows."""
    for place, target in enumerate(filter(nvrtc.knows, all_targets())):
        if ALL_VARIANTS:
            for probe in PROBES:
                yield from variants(probe, target)
            continue
        firsts = list({probe.family: probe for probe in reversed(PROBES) if target in probe.targets}.values())
        for probe in firsts if target == "sm_90a" else [firsts[place % len(firsts)]]:
            yield next(variants(probe, target))


@needs_cuda_wheels
@pytest.mark.timeout(3600 if ALL_VARIANTS else 300)
@pytest.mark.parametrize("release", RELEASES)
def test_gates_are_passed_by_the_code_of_each_release(release: str) -> None:
    nvrtc = nvrtc_of(release)
    assert str(nvrtc) == f"NVRTC {release}"
    looked_at = list(chosen(nvrtc))
    assert {variant.target for variant in looked_at} > {"sm_75", "sm_90a", "sm_120a"}
    wrong = []
    for item in check(looked_at, nvrtc=nvrtc):
        target, probe = item.variant.target, item.variant.probe.id
        assert item.compiled is None or item.compiled.compiler == str(nvrtc)
        if item.judgement.gate not in {"pass", "emulated"} and not (item.judgement.gate is None and target == "sm_70"):
            wrong.append(f"{probe} {target} {dict(item.variant.assignment)}: {item.judgement.why}")
    assert not wrong, "\n".join(wrong)


@needs_cuda_wheels
def test_several_releases_in_one_process_compile_as_each_does_alone() -> None:
    every = [nvrtc_of(release) for release in RELEASES]
    options = target_options("sm_90a")
    for nvrtc in (*every, *reversed(every)):
        words = [sys.executable, "-c", ALONE, str(nvrtc.path), TRIAL, *options]
        alone = subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
        cubin = nvrtc.compile(TRIAL, "one.cu", options).cubin
        assert cubin is not None
        assert hashlib.sha256(cubin).hexdigest() == alone
