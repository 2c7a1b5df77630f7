"""The reference of a JSON contract, such as the session: every object, with the type and meaning of each field."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gpuprof.store.schema import schema_of_session

INTRO = """What `gpuprof show --format json` writes and `gpuprof show`, `report` and `gpuprof.load` read. This page is
made from the types in `gpuprof/model/session.py`, as is [the JSON Schema](session.schema.json).

- Numbers are in base units, with the unit in the name or in its column; 1 is all of a
  fraction, and values from counters can be slightly above, because they are collected in several passes. No quantity is
  negative or above 10³⁰.
- `headline`, `why`, `action`, `advice`, `held`, `meaning` and `sentence` are text for people, made from the other
  fields: do not depend on them.
- `null` means missing; `missing` has the reason if a kernel lacks what counters show. Zero means measured zero.
- gpuprof writes all fields. It reads a session without fields that an older gpuprof of the same version did not
  know, and ignores unknown fields.
- A *word* has at most 60 letters, digits, `.`, `_`, `-` and spaces. Short sets of words are listed.
"""
_PLAIN = {"string": "text", "integer": "integer", "number": "number", "boolean": "true or false", "null": "`null`"}


def session_page() -> str:
    """Return the page."""
    return contract_page("Session", INTRO, schema_of_session())


def contract_page(root: str, intro: str, schema: Mapping[str, Any]) -> str:
    """Return the reference of a contract: its record `root`, then every record below it, field by field."""
    records = {root: schema, **schema["$defs"]}
    lines = (line for name in _reached(records, root) for line in _record(name, records))
    return "\n".join([f"# {root}\n", intro, *lines])


def _reached(records: Mapping[str, Any], name: str, seen: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Return the names of the records, each before those that its fields hold."""
    seen = (*seen, name)
    for child in _references(records[name]["properties"]):
        if child not in seen:
            seen = _reached(records, child, seen)
    return seen


def _references(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        if "$ref" in schema:
            yield _referred(schema)
        for part in schema.values():
            yield from _references(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from _references(part)


def _referred(schema: Mapping[str, Any]) -> str:
    return str(schema["$ref"]).rpartition("/")[2]


def _record(name: str, records: Mapping[str, Any]) -> Iterator[str]:
    yield f"## {name}\n"
    yield f"{records[name]['description']}\n"
    yield "| field | type or unit | meaning |"
    yield "|---|---|---|"
    for field, schema in records[name]["properties"].items():
        yield f"| `{field}` | {_type(schema)} | {schema['description']} |"
    yield ""


def _type(schema: Mapping[str, Any]) -> str:
    if "anyOf" in schema:
        return " or ".join(_type(choice) for choice in schema["anyOf"])
    if "$ref" in schema:
        name = _referred(schema)
        return f"[{name}](#{name.lower()})"
    if "enum" in schema:
        return ", ".join(f"`{word}`" for word in schema["enum"])
    if schema["type"] == "array":
        shape = schema.get("prefixItems")
        return f"list of {len(shape)}: {_type(shape[0])}" if shape else f"list of {_type(schema['items'])}"
    plain = "word" if "pattern" in schema else _PLAIN[schema["type"]]
    return str(schema.get("x-unit", plain))
