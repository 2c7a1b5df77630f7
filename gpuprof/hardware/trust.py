"""The words for how far a counter is known to count what it claims. Sessions hold them, certificates give them."""

from __future__ import annotations

from typing import Final, Literal

Trust = Literal["certified", "checked", "none"]
"""Best first: kernels of known work gave it; two counts of the same kernels agreed; neither."""
CERTIFIED: Final = "certified"
CHECKED: Final = "checked"
NONE: Final = "none"
