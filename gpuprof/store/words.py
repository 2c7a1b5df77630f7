"""The words that fields of a session can have, where they are few: its reader refuses others, its schema lists them."""

from __future__ import annotations

UNITS = ("sm", "memory", "dram", "l2", "l1")
ORIGINS = ("rated", "at-clock", "measured")
"""Of a ceiling, and of what a fraction is a fraction of."""
BOUNDS = ("memory", "compute")
LANGUAGES = ("source", "sass")
