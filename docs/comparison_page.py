"""The reference of a comparison: every object of its JSON, with the type and the meaning of each field."""

from __future__ import annotations

from session_page import contract_page

from gpuprof.views.exports.json_documents import schema_of_comparison

INTRO = """What `gpuprof compare BASE NEW --format json` writes. This page is made from the types in
`gpuprof/comparison/contract.py`, as is [the JSON Schema](comparison.schema.json).

- Numbers are in base units, with the unit in the name or in its column. A ratio is new ÷ base: 1.18 is 18 % more.
- `null` means missing, and a `reason` or a note says why; zero means measured zero. A number that is not finite is
  written as `null`, or its record is left out, and `notes` says which.
- gpuprof writes all fields. A later gpuprof can add some: read past what you do not know.
- Two verdicts are apart: `work` is counted and the same on every run of the same code and data; `time` is sampled.
- A check of the gate names a kernel by the `id` of its change in `kernels`.
- A *word* has at most 60 letters, digits, `.`, `_`, `-` and spaces. Short sets of words are listed.
"""


def comparison_page() -> str:
    """Return the page."""
    return contract_page("Comparison", INTRO, schema_of_comparison())
