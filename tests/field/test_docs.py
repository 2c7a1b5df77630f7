"""The README's example of a comparison, on the two reports that it is of."""

from __future__ import annotations

import gpuprof
from tests.field.folder import report
from tests.test_docs import DOCS, ROOT, blocks


def test_the_example_of_a_cause_is_what_compare_says() -> None:
    files = (report(f"gpu_workshop-MW_{version}.ncu-rep") for version in ("Baseline", "DivToMult"))
    first = gpuprof.compare(*files).comparison.kernels[0]
    for page in (ROOT / "README.md", DOCS / "explanation" / "changes.md"):
        (example,) = (text for text in blocks(page, "text") if "line 288" in text)
        assert " ".join(example.split()).removeprefix(f"{first.label} is ") == first.sentence
