"""Lets a picture be drawn once, in whichever run of the tests: pages and commands draw the same ones over and over."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib.metadata import version
from typing import Any

import pytest

from gpuprof.present import plot
from tests import kept, kept_code

_SVG, _PNG = plot.render_svg, plot.render_png
_DRAWN: dict[str, bytes] = {}


@contextmanager
def keeping() -> Iterator[None]:
    """Keep what is drawn, and take it from there, until the end of the block."""
    with _by(_svg, _png):
        yield


@contextmanager
def asking() -> Iterator[None]:
    """Have each picture drawn, whatever was kept, until the end of the block."""
    with _by(_SVG, _PNG):
        yield


@contextmanager
def _by(svg: Callable[..., str], png: Callable[..., bytes]) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plot, "render_svg", svg)
        patch.setattr(plot, "render_png", png)
        yield


def _svg(*what: Any, **how: Any) -> str:
    return _drawn(lambda: _SVG(*what, **how).encode("utf-8", "surrogatepass"), ("svg", what, how)).decode(
        "utf-8", "surrogatepass"
    )


def _png(*what: Any, **how: Any) -> bytes:
    return _drawn(lambda: _PNG(*what, **how), ("png", what, how))


def _drawn(draw: Callable[[], bytes], what: object) -> bytes:
    """Return a picture; the `repr` of what is drawn, frozen dataclasses, holds all of it."""
    key = kept.key_of(_code(), what)
    if key not in _DRAWN:
        made = draw() if kept.EVERYTHING else kept.kept("pictures", key, draw)
        assert made is not None
        _DRAWN[key] = made
    return _DRAWN[key]


@cache
def _code() -> str:
    """Say what draws."""
    return kept.key_of(kept_code.code_key(plot.__name__), version("matplotlib"))
