"""The colours of pages and figures: a palette, light and dark themes, and the contrast of lines and texts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Literal

ThemeName = Literal["light", "dark", "page"]

# Okabe and Ito's palette; levels and limits keep their colour everywhere. Yellow is unreadable on white.
_PALETTE = {
    "dram": "#d55e00",
    "l2": "#009e73",
    "l1": "#0072b2",
    "compute": "#cc79a7",
    "latency": "#e69f00",
    "unknown": "#999999",
    "other": "#56b4e9",
}
_BASE_COLOURS = {
    "light": {"background": "#ffffff", "ink": "#1b1d21", "muted": "#5a5f69", "grid": "#e4e6ea"},
    "dark": {"background": "#16181d", "ink": "#e9eaec", "muted": "#a9aeb7", "grid": "#2d3138"},
}
_LINE_CONTRAST = 3.0
_TEXT_CONTRAST = 4.6


@cache
def theme_colours(theme: ThemeName) -> Mapping[str, str]:
    """Return the colour of each role; lines and texts are shifted until they stand out from the background.

    Theme `page` gives each role a colour of its own, which `page_style` replaces in the drawing.
    """
    if theme == "page":
        roles = theme_colours("light")
        return {role: f"#fa0{number:03x}" for number, role in enumerate(roles)}
    colours = dict(_BASE_COLOURS[theme])
    background = colours["background"]
    for name, colour in _PALETTE.items():
        colours[f"line-{name}"] = _standing_out(colour, background, _LINE_CONTRAST)
        colours[f"text-{name}"] = _standing_out(colour, background, _TEXT_CONTRAST)
    return colours


def page_colours() -> dict[str, tuple[str, str]]:
    """Return the CSS variables that a drawing of theme `page` uses, with their light and dark values."""
    light = theme_colours("light")
    dark = theme_colours("dark")
    return {f"--gp-{role}": (light[role], dark[role]) for role in light}


def colour_variables() -> str:
    """Return the CSS rules that define these variables, with dark values if the reader's system is dark."""
    colours = page_colours()
    light = "".join(f"{name}:{value[0]};" for name, value in colours.items())
    dark = "".join(f"{name}:{value[1]};" for name, value in colours.items())
    return f":root{{{light}}}\n@media screen and (prefers-color-scheme: dark){{:root{{{dark}}}}}\n"


def page_style(style: str) -> str:
    """Replace the colours of theme `page` in a style by CSS variables, with the light value to fall back on."""
    return _PAGE_COLOUR.sub(_variable, style)


_PAGE_COLOUR = re.compile("#fa0([0-9a-f]{3})")


def _variable(match: re.Match[str]) -> str:
    role, light = list(theme_colours("light").items())[int(match[1], 16)]
    return f"var(--gp-{role}, {light})"


def _standing_out(colour: str, background: str, contrast: float) -> str:
    target = 0.0 if _luminance(background) > 0.5 else 1.0
    channels = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    for step in range(101):
        mixed = [channel + (target - channel) * step / 100 for channel in channels]
        text = "#" + "".join(f"{round(channel * 255):02x}" for channel in mixed)
        if contrast_ratio(text, background) >= contrast:
            return text
    raise AssertionError("unreachable: black and white stand out from any background")


def contrast_ratio(first: str, second: str) -> float:
    """Return the contrast of two colours as WCAG 2 defines it, 1 to 21."""
    brighter, darker = sorted((_luminance(first), _luminance(second)), reverse=True)
    return (brighter + 0.05) / (darker + 0.05)


def _luminance(colour: str) -> float:
    def linear(channel: float) -> float:
        return channel / 12.92 if channel <= 0.04045 else ((channel + 0.055) / 1.055) ** 2.4

    red, green, blue = (linear(int(colour[start : start + 2], 16) / 255) for start in (1, 3, 5))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
