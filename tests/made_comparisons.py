"""Hand-made comparisons for what presents them: every value is set, none is computed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from gpuprof.comparison.compare import Compared
from gpuprof.comparison.contract import (
    COMPARISON_VERSION,
    ChangeCause,
    ComparedKernel,
    ComparedSide,
    Comparison,
    CountChange,
    FindingChange,
    Gate,
    GateCheck,
    Interval,
    KernelChange,
    LineChange,
    QuantityChange,
    RunCondition,
    SourceLine,
    TimeChange,
    TimeWord,
    WorkChange,
)
from gpuprof.comparison.pair import Pair
from gpuprof.model.session import KernelProfile, LineWork, Location
from tests import compare_builders, hand_made

FILE = "/home/me/project/src/gather.cu"
"""Where the code of made-up kernels lies on the machine that recorded them."""
ROOT = "/home/me/project"


def time(verdict: TimeWord = "slower", ratio: float | None = 1.18, **changes: Any) -> TimeChange:
    every: dict[str, Any] = {
        "verdict": verdict, "base_s": 1e-3, "new_s": 1e-3 * ratio if ratio is not None else None, "ratio": ratio,
        "interval": Interval(ratio - 0.03, ratio + 0.03) if ratio is not None else None, "base_cycles": None,
        "new_cycles": None, "cycles_ratio": None, "cycles_interval": None, "base_runs": 1, "new_runs": 1,
        "base_launches": 10, "new_launches": 10, "noise": 0.004, "noise_basis": "runs", "noise_source": "the samples",
    }  # fmt: skip
    return TimeChange(**{**every, **changes})


def count(
    name: str = "instructions", base: float | None = 1e6, new: float | None = 1.2e6, **changes: Any
) -> CountChange:
    every: dict[str, Any] = {
        "name": name, "unit": "counts", "base": base, "new": new,
        "ratio": new / base if base and new is not None else None,
        "word": "same" if base == new else "more" if (new or 0) > (base or 0) else "less", "tolerance": 0.0,
        "data_dependent": False, "metric": "inst_executed",
    }  # fmt: skip
    return CountChange(**{**every, **changes})


def side_kernel(label: str = "gather_rows", **changes: Any) -> ComparedKernel:
    every: dict[str, Any] = {
        "run": 0, "id": 0, "label": label, "demangled": f"void {label}(float *)", "ranges": (), "grid": (64, 1, 1),
        "block": (256, 1, 1), "launches": 10, "time_total_s": 1e-2,
    }  # fmt: skip
    return ComparedKernel(**{**every, **changes})


def finding_came(**changes: Any) -> FindingChange:
    every: dict[str, Any] = {
        "word": "came", "rule": "uncoalesced-global", "severity": "high", "base": "",
        "id": "0.uncoalesced-global", "new": "headline of uncoalesced-global", "promised": None, "gained": None,
        "location": SourceLine(FILE, 41),
    }  # fmt: skip
    return FindingChange(**{**every, **changes})


def change(number: int = 0, label: str = "gather_rows", verdict: TimeWord = "slower", **changes: Any) -> KernelChange:
    """A kernel that is slower by 18 %, with all that can be told of it; `changes` replace some."""
    slower = verdict == "slower"
    every: dict[str, Any] = {
        "id": number,
        "label": label,
        "match": verdict if verdict in ("new", "gone") else "exact",
        "base": () if verdict == "new" else (side_kernel(label),),
        "new": () if verdict == "gone" else (side_kernel(label),),
        "sentence": "slower by 18 %: registers 40 → 72" if slower else verdict,
        "time": time(verdict, 1.18 if slower else 0.8 if verdict == "faster" else 1.0),
        "work": WorkChange(
            verdict="more" if slower else "same",
            counts=(count(), count("registers", 40.0, 72.0)) if slower else (count("registers", 40.0, 40.0),),
        ),
        "causes": (
            ChangeCause(
                mechanism="occupancy", sentence="occupancy 75 % → 50 % (limited by registers)", direction="slower",
                certainty="counted", location=SourceLine(FILE, 88),
            ),
        )
        if slower
        else (),
        "lines": (
            LineChange(file=FILE, base_line=80, new_line=88, text="x += a[i];", what="local", base=0.0, new=12.0),
        )
        if slower
        else (),
        "findings": (finding_came(),) if slower else (),
        "effect_s": 1.8e-4 if slower else 0.0,
        "effect": 0.01 if slower else 0.0,
    }  # fmt: skip
    return KernelChange(**{**every, **changes})


def profile(file: str = FILE) -> KernelProfile:
    """A kernel of the new side, with a finding at line 41 and its hottest line there."""
    location = Location(file=file, line=41, pc=None, sass=None, share=0.5)
    made = hand_made.kernel(0, hand_made.finding(place=location))
    line = LineWork(file=file, number=41, text="out[i] = in[j];", instructions=96.0, local=0.0, samples=60.0)
    excerpts = tuple(replace(excerpt, file=file) for excerpt in made.excerpts)
    return replace(made, excerpts=excerpts, lines=(replace(line, number=40, samples=10.0), line))


def compared(
    *kernels: KernelChange, profiles: Sequence[KernelProfile] | None = None, gate: Gate | None = None, **changes: Any
) -> Compared:
    """A comparison of these kernels; each has the profile of its place, the same one where none are given."""
    known = profiles if profiles is not None else [profile()] * len(kernels)
    pairs = tuple(_pair(kernel, of) for kernel, of in zip(kernels, known, strict=True))
    every: dict[str, Any] = {
        "schema_version": COMPARISON_VERSION, "gpuprof_version": "9.9", "base": side("base.ncu-rep"),
        "new": side("new.ncu-rep"), "sentence": "GPU time 10.0 ms → 11.8 ms (+18 %)", "alike": True, "conditions": (),
        "total": (QuantityChange(name="gpu-time", unit="s", base=1e-2, new=1.18e-2, ratio=1.18, verdict="slower"),),
        "kernels": kernels, "gate": gate,
    }  # fmt: skip
    empty = compare_builders.side()
    return Compared(Comparison(**{**every, **changes}), pairs, empty, new=empty)


def _pair(kernel: KernelChange, profile: KernelProfile) -> Pair:
    side = compare_builders.side(profile)
    return Pair(kernel.match, side.kernels if kernel.base else (), side.kernels if kernel.new else ())


def side(*files: str, **changes: Any) -> ComparedSide:
    every: dict[str, Any] = {"files": files, "gpus": ("NVIDIA A100",), "kernels": 1, "launches": 10, "time_s": 1e-2}
    return ComparedSide(**{**every, **changes})


def check(word: str = "regression", kernel: int | None = 0, limit: str = "time:3%", **changes: Any) -> GateCheck:
    every: dict[str, Any] = {
        "limit": limit, "quantity": "time", "allowed": 0.03, "kernel": kernel, "word": word, "change": 0.18,
        "sentence": "time rose by 18 %, 3 % is allowed",
    }  # fmt: skip
    return GateCheck(**{**every, **changes})


def gate(*checks: GateCheck, ok: int = 0, exit_code: int | None = None) -> Gate:
    failed = any(check.word == "regression" for check in checks)
    code = exit_code if exit_code is not None else 6 if failed else 0
    return Gate(passed=code == 0, exit_code=code, checks=checks, ok=ok)


def condition(**changes: Any) -> RunCondition:
    every: dict[str, Any] = {
        "name": "gpu", "base": ("NVIDIA A100",), "new": ("NVIDIA H100",), "affects": "both",
        "sentence": "Other GPUs: neither time nor work can be judged",
    }  # fmt: skip
    return RunCondition(**{**every, **changes})


def everything(label: str = "gather_rows", text: str = "text") -> Compared:
    """A comparison in which every text from a file is `text`, and every kind of record is there."""
    kernel = change(
        0,
        label,
        base=(side_kernel(label, demangled=text, ranges=(text,)),),
        new=(side_kernel(label, demangled=text, ranges=(text,)),),
        match="renamed",
        sentence=text,
        causes=(
            ChangeCause(
                mechanism="occupancy",
                sentence=text,
                direction="slower",
                certainty="guess",
                location=SourceLine(text, 3),
            ),
        ),
        lines=(LineChange(file=text, base_line=1, new_line=2, text=text, what="local", base=0.0, new=1.0),),
        findings=(
            finding_came(new=text, location=SourceLine(text, 5)),
            finding_came(word="went", base=text, new="", promised=0.3, gained=0.2, location=SourceLine(text, 1)),
            finding_came(word="stayed", base=text, new=text),
        ),
        work=WorkChange(verdict="more", counts=(count(unit=text, metric=text),), reason=text),
        time=time(reason=text, noise_source=text),
    )
    unclear = change(1, f"{label} ", "unclear", time=time("unclear", 1.01, reason=text))
    checks = [check(word, 0, text, sentence=text, accepted=text) for word in ("regression", "accepted", "not-compared")]
    return compared(
        kernel, unclear, change(2, f"{label}  ", "gone"), profiles=[profile(text)] * 3,
        gate=gate(*checks, check("unclear", None, text, sentence=text), ok=3), base=side(text, gpus=(text,)),
        new=side(text, text, gpus=(text,)), sentence=text, alike=False,
        conditions=(condition(base=(text,), new=(text,), sentence=text), condition(affects=None, sentence=text)),
        notes=(text,),
    )  # fmt: skip
