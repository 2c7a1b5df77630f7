"""The JSON Schema of a contract, from its types: what `show --format json` writes, which leaves no field out."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin

import msgspec

from gpuprof.model.session import SCHEMA_VERSION, Session


def schema_of_session() -> dict[str, Any]:
    """Return the schema as a value, with a definition for each type of record."""
    return schema_of(Session, f"gpuprof session, version {SCHEMA_VERSION}")


def schema_text(schema: dict[str, Any]) -> str:
    """Return a schema as the content of a file."""
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def schema_of(kind: type[msgspec.Struct], title: str) -> dict[str, Any]:
    """Return the schema of a record as a value, with a definition for each type of record below it."""
    records = msgspec.json.schema(kind)["$defs"]
    orders = {frozenset(listed): listed for listed in _lists_of_words(kind)}
    definitions = {name: _ordered(_written(records[name]), orders) for name in sorted(records)}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
        **definitions.pop(kind.__name__),
        "$defs": definitions,
    }


def _written(record: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a record as gpuprof writes it: with all of its fields and no other ones.

    The reader takes defaults for fields that an older gpuprof did not know, and passes over those of a later one.
    """
    properties = {
        name: {key: value for key, value in field.items() if key != "default"}
        for name, field in record["properties"].items()
    }
    return {
        "type": "object",
        "description": re.sub(r"\bNone\b", "null", inspect.cleandoc(record["description"])),
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _lists_of_words(kind: Any) -> Iterator[tuple[object, ...]]:
    """Yield the words of each `Literal` below a type, as they are declared."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        for field in msgspec.structs.fields(kind):
            yield from _lists_of_words(field.type)
    elif get_origin(kind) is Literal:
        yield get_args(kind)
    else:
        for part in get_args(kind):
            yield from _lists_of_words(part)


def _ordered(schema: Any, orders: dict[frozenset[object], tuple[object, ...]]) -> Any:
    """Return a schema with words in the order of their declaration and null last, whichever msgspec made it."""
    if isinstance(schema, list):
        return sorted((_ordered(part, orders) for part in schema), key=lambda part: part == {"type": "null"})
    if not isinstance(schema, dict):
        return schema
    return {
        key: list(orders.get(frozenset(part)) or part) if key == "enum" else _ordered(part, orders)
        for key, part in schema.items()
    }
