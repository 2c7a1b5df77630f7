"""The JSON Schema of a session, from its types and the words that its fields may have."""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from typing import Any, get_args, get_origin, get_type_hints

from gpuprof.hardware.specs import LEVELS
from gpuprof.hardware.trust import TRUST
from gpuprof.model.session import CONFIDENCES, SEVERITIES, Session
from gpuprof.model.sources import SOURCE_KINDS, SURVEY_MARK
from gpuprof.store.words import BOUNDS, LANGUAGES, ORIGINS, UNITS

_BASES = ("counted", "derived", "estimated")
_WORDS_OF: dict[tuple[str, str], tuple[str, ...]] = {
    ("Source", "kind"): tuple(f"{kind}{mark}" for mark in ("", SURVEY_MARK) for kind in SOURCE_KINDS),
    ("Ceiling", "kind"): ("compute", "bandwidth"),
    ("Ceiling", "origin"): ORIGINS,
    ("Utilisation", "origin"): ORIGINS,
    ("Work", "certificate"): TRUST,
    ("Traffic", "certificate"): TRUST,
    ("Work", "basis"): _BASES,
    ("Traffic", "basis"): _BASES,
    ("Traffic", "level"): LEVELS,
    ("RooflinePoint", "level"): LEVELS,
    ("RooflinePoint", "bound"): BOUNDS,
    ("RooflinePoint", "ceiling"): ORIGINS,
    ("Stall", "family"): ("counter", "sampled", "sampled-not-issued"),
    ("Throughput", "unit"): UNITS,
    ("Finding", "severity"): SEVERITIES,
    ("Finding", "confidence"): CONFIDENCES,
    ("Excerpt", "language"): LANGUAGES,
}


def session_schema() -> str:
    """Return the JSON Schema of `show --format json`, made from the session's types."""
    definitions: dict[str, Any] = {}
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "gpuprof session, version 1",
        **_record(Session, definitions),
        "$defs": dict(sorted(definitions.items())),
    }
    schema["properties"]["schema_version"] = {"const": 1}
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def _record(kind: type, definitions: dict[str, Any]) -> dict[str, Any]:
    hints = get_type_hints(kind)
    properties = {}
    for field in dataclasses.fields(kind):
        shape = _shape(hints[field.name], definitions)
        allowed: list[str | None] = [*_WORDS_OF.get((kind.__name__, field.name), ())]
        if allowed and {"type": "null"} in shape.get("anyOf", ()):
            allowed.append(None)
        properties[field.name] = {"enum": allowed} if allowed else shape
    description = (kind.__doc__ or "").strip().split("\n")[0]
    return {
        "type": "object",
        "description": description,
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _shape(kind: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    origin = get_origin(kind)
    if origin in (typing.Union, types.UnionType):
        return {"anyOf": [_shape(choice, definitions) for choice in get_args(kind)]}
    if origin is tuple:
        return _array(get_args(kind), definitions)
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        if kind.__name__ not in definitions:
            definitions[kind.__name__] = {}
            definitions[kind.__name__] = _record(kind, definitions)
        return {"$ref": f"#/$defs/{kind.__name__}"}
    names = {int: "integer", float: "number", str: "string", bool: "boolean", type(None): "null"}
    return {"type": names[kind]}


def _array(items: tuple[Any, ...], definitions: dict[str, Any]) -> dict[str, Any]:
    if not items:
        return {"type": "array", "maxItems": 0}
    if items[-1] is Ellipsis:
        return {"type": "array", "items": _shape(items[0], definitions)}
    shapes = [_shape(item, definitions) for item in items]
    return {"type": "array", "prefixItems": shapes, "minItems": len(shapes), "maxItems": len(shapes)}
