"""session.json back into a Session, every field checked against the contract's types before it is believed."""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from typing import Any, get_args, get_origin, get_type_hints

from gpuprof.errors import DamagedInput, InputError
from gpuprof.model.session import SCHEMA_VERSION, Session


def read_session(text: str, file: str) -> Session:
    """Read the JSON contract. Raises InputError for another version, DamagedInput for anything that breaks it."""
    try:
        data = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise DamagedInput(f"{file} is not valid JSON: {error}") from error
    if not isinstance(data, dict) or "schema_version" not in data:
        raise InputError(f"{file} is JSON, but not a gpuprof session: it has no schema_version")
    version = data["schema_version"]
    if version != SCHEMA_VERSION:
        age = "newer" if isinstance(version, int) and version > SCHEMA_VERSION else "older"
        raise InputError(
            f"{file} has session schema {version!r}, {age} than the {SCHEMA_VERSION} that this gpuprof reads",
            "read it with the gpuprof that wrote it, or profile again",
        )
    session = _build(Session, data, file, "session")
    assert isinstance(session, Session)
    _check_references(session, file)
    return session


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


def _check_references(session: Session, file: str) -> None:
    for kernel in session.kernels:
        if not 0 <= kernel.device < len(session.devices) or not 0 <= kernel.source < len(session.sources):
            raise DamagedInput(f"{file} is damaged: kernel {kernel.id} names a device or source that is not there")


def _build(kind: Any, value: Any, file: str, where: str) -> Any:
    """Turn a JSON value into what the annotation `kind` asks for."""
    origin = get_origin(kind)
    if origin in (typing.Union, types.UnionType):
        return _build_optional(get_args(kind), value, file, where)
    if origin is tuple:
        return _build_tuple(get_args(kind), value, file, where)
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return _build_record(kind, value, file, where)
    if kind is type(None) and value is None:
        return None
    if kind is float and isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    if isinstance(kind, type) and isinstance(value, kind) and not (kind is int and isinstance(value, bool)):
        return value
    raise DamagedInput(f"{file} is damaged: {where} is {value!r:.60}")


def _build_optional(choices: tuple[Any, ...], value: Any, file: str, where: str) -> Any:
    if value is None and type(None) in choices:
        return None
    return _build(next(choice for choice in choices if choice is not type(None)), value, file, where)


def _build_tuple(items: tuple[Any, ...], value: Any, file: str, where: str) -> Any:
    if not isinstance(value, list):
        raise DamagedInput(f"{file} is damaged: {where} is not a list")
    if not items:
        if value:
            raise DamagedInput(f"{file} is damaged: {where} should be empty in this version")
        return ()
    if len(items) == 2 and items[1] is Ellipsis:
        return tuple(_build(items[0], item, file, f"{where}[{index}]") for index, item in enumerate(value))
    if len(value) != len(items):
        raise DamagedInput(f"{file} is damaged: {where} has {len(value)} entries instead of {len(items)}")
    return tuple(_build(kind, item, file, f"{where}[{index}]") for index, (kind, item) in enumerate(zip(items, value)))  # noqa: B905


def _build_record(kind: type, value: Any, file: str, where: str) -> Any:
    if not isinstance(value, dict):
        raise DamagedInput(f"{file} is damaged: {where} is not an object")
    hints = get_type_hints(kind)
    fields = {field.name: field for field in dataclasses.fields(kind)}
    arguments = {}
    for name, field in fields.items():
        if name in value:
            arguments[name] = _build(hints[name], value[name], file, f"{where}.{name}")
        elif field.default is dataclasses.MISSING:
            raise DamagedInput(f"{file} is damaged: {where} has no {name}")
    return kind(**arguments)
