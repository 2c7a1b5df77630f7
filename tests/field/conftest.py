"""Collects these tests only if GPUPROF_FIELD_REPORTS names a folder of reports."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.field.folder import REPORTS

collect_ignore_glob = [] if REPORTS is not None else ["test_*.py"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all tests of this package `field`, so that `make test` leaves them out."""
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker(pytest.mark.field)
