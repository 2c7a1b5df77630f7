"""The words for how far a counter is known to count what it claims. Sessions hold them, certificates give them."""

from __future__ import annotations

CERTIFIED, CHECKED, NONE = "certified", "checked", "none"
TRUST = (CERTIFIED, CHECKED, NONE)
"""Best first: kernels of known work gave it; two counts of the same kernels agreed; neither."""
