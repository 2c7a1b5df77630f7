"""What tests ask of the JSON schema of a contract."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def records_of(name: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the objects of a contract by their names; `name` is that of the whole."""
    return {name: schema, **schema["$defs"]}


def undescribed(records: Mapping[str, Any]) -> list[str]:
    """Return the fields of these objects that say nothing of themselves."""
    return [
        f"{name}.{field}"
        for name, record in records.items()
        for field, value in record["properties"].items()
        if not value.get("description")
    ]
