"""The colours of pages and figures in light and dark themes, as roles, values and CSS variables."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

ThemeName = Literal["light", "dark", "page"]

# Okabe and Ito's palette; levels and limits keep their colour everywhere. Yellow is unreadable on white.
_PALETTE = {"line-dram": "#d55e00", "line-l2": "#009e73", "line-l1": "#0072b2", "line-compute": "#cc79a7"}
_LIGHT = {
    "background": "#ffffff", "ink": "#1b1d21", "muted": "#5a5f69", "grid": "#e4e6ea", **_PALETTE,
    "line-latency": "#c68900", "line-unknown": "#949494", "line-other": "#4b9dcb",
}  # fmt: skip
_DARK = {
    "background": "#16181d", "ink": "#e9eaec", "muted": "#a9aeb7", "grid": "#2d3138", **_PALETTE,
    "line-latency": "#e69f00", "line-unknown": "#999999", "line-other": "#56b4e9",
}  # fmt: skip
# Colours of their own, which `page_style` replaces in a drawing.
_PAGE = {role: f"#fa0{number:03x}" for number, role in enumerate(_LIGHT)}
_VARIABLES = {_PAGE[role]: f"var(--gp-{role}, {colour})" for role, colour in _LIGHT.items()}


def theme_colours(theme: ThemeName) -> Mapping[str, str]:
    """Return the colour of each role."""
    return {"light": _LIGHT, "dark": _DARK, "page": _PAGE}[theme]


def colour_variables() -> str:
    """Return the CSS rules that define the colours, with dark values if the reader's system is dark."""
    light = _rule(_LIGHT)
    dark = _rule(_DARK)
    return f"{light}\n@media screen and (prefers-color-scheme: dark){{{dark}}}\n"


def _rule(colours: Mapping[str, str]) -> str:
    values = "".join(f"--gp-{role}:{colour};" for role, colour in colours.items())
    return f":root{{{values}}}"


def page_style(style: str) -> str:
    """Replace the colours of theme `page` in a style by CSS variables, with the light value to fall back on."""
    return re.sub("#fa0[0-9a-f]{3}", lambda match: _VARIABLES[match[0]], style)


def contrast_ratio(first: str, second: str) -> float:
    """Return the contrast of two colours as WCAG 2 defines it, 1 to 21."""
    brighter, darker = sorted((_luminance(first), _luminance(second)), reverse=True)
    return (brighter + 0.05) / (darker + 0.05)


def _luminance(colour: str) -> float:
    weights = (0.2126, 0.7152, 0.0722)
    total = 0.0
    for weight, start in zip(weights, (1, 3, 5), strict=True):
        channel = int(colour[start : start + 2], 16) / 255
        total += weight * (channel / 12.92 if channel <= 0.04045 else ((channel + 0.055) / 1.055) ** 2.4)
    return total
