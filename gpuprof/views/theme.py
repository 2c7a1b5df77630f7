"""The colours of pages and figures: a palette, light and dark themes, and the contrast of lines and texts."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

ThemeName = Literal["light", "dark", "page"]

# Okabe and Ito's palette. Levels and paths keep their colour everywhere; yellow is left out, it is unreadable on white.
PALETTE = {
    "dram": "#d55e00", "l2": "#009e73", "l1": "#0072b2",
    "fp64": "#cc79a7", "fp32": "#56b4e9", "fp16": "#f0e442", "int32": "#999999", "tensor": "#e69f00",
}  # fmt: skip
_BASE_COLOURS = {
    "light": {"background": "#ffffff", "ink": "#1b1d21", "muted": "#5a5f69", "grid": "#e4e6ea"},
    "dark": {"background": "#16181d", "ink": "#e9eaec", "muted": "#a9aeb7", "grid": "#2d3138"},
}
_LINE_CONTRAST, _TEXT_CONTRAST = 3.0, 4.6


@lru_cache(maxsize=3)
def theme_colours(theme: ThemeName) -> dict[str, str]:
    """Return the colour of each role; lines and texts are shifted until they stand out from the background.

    Theme `page` gives each role the CSS variable of `page_colours`, with the light value to fall back on.
    """
    if theme == "page":
        return {role: f"var(--gp-{role}, {light})" for role, light in theme_colours("light").items()}
    colours = dict(_BASE_COLOURS[theme])
    background = colours["background"]
    for name, colour in PALETTE.items():
        colours[f"line-{name}"] = _standing_out(colour, background, _LINE_CONTRAST)
        colours[f"text-{name}"] = _standing_out(colour, background, _TEXT_CONTRAST)
    return colours


def page_colours() -> dict[str, tuple[str, str]]:
    """Return the CSS variables that an SVG of theme `page` uses, with their light and dark values."""
    light, dark = theme_colours("light"), theme_colours("dark")
    return {f"--gp-{role}": (light[role], dark[role]) for role in light}


def colour_variables() -> str:
    """Return the CSS rules that define these variables, with dark values if the reader's system is dark."""
    colours = page_colours()
    light = "".join(f"{name}:{value[0]};" for name, value in colours.items())
    dark = "".join(f"{name}:{value[1]};" for name, value in colours.items())
    return f":root{{{light}}}\n@media screen and (prefers-color-scheme: dark){{:root{{{dark}}}}}\n"


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
