"""The diagnosis with its sentences, as every command gives it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpuprof.diagnose import diagnose as _diagnose
from gpuprof.diagnose import summary
from gpuprof.model import exclusion
from gpuprof.model.analyse import Analysis
from gpuprof.model.session import KernelProfile, Session
from gpuprof.privacy.texts import clean_text
from gpuprof.words.session import worded


def diagnose(analysis: Analysis) -> Session:
    return worded(_diagnose.diagnose(analysis))


def summarised(session: Session) -> Session:
    return worded(summary.summarised(session))


def chosen(session: Session, kernels: Iterable[KernelProfile]) -> Session:
    return worded(summary.chosen(session, kernels))


def grouped(session: Session) -> Session:
    return worded(summary.grouped(session))


def without_excluded(session: Session, texts: Sequence[str]) -> Session:
    return worded(summary.with_verdict(exclusion.without_excluded(session, texts, clean_text)))
