"""How the fields of a measured file are declared, and what reads and writes any record that is declared so.

A field's metadata say its key, its form and its meaning. What equals the field's default is left out of the file.
"""

from __future__ import annotations

from dataclasses import MISSING, dataclass, field, fields
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from gpuprof.characterize.sheet.forms import KeyForm
from gpuprof.hardware.yaml_fields import Fields

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    Record = TypeVar("Record", bound=DataclassInstance)


@dataclass(frozen=True, slots=True)
class FileKey:
    """A key of the file. `default`: what its field is where the key is missing; MISSING where it must be there."""

    name: str
    form: KeyForm
    meaning: str
    field: str
    default: object


def key(form: KeyForm, meaning: str, name: str | None = None) -> dict[str, object]:
    """Return the metadata that declare a field. `name`: the key, where it is not called as the field."""
    return {"form": form, "meaning": meaning, "name": name}


def optional(form: KeyForm, meaning: str, name: str | None = None) -> Any:
    """Declare a field that is None where the key is missing."""
    return field(default=None, metadata=key(form, meaning, name))


@cache
def keys_of(record: type[DataclassInstance]) -> tuple[FileKey, ...]:
    """Return the keys of a record, in the order of the file."""
    return tuple(
        FileKey(
            name=declared.metadata["name"] or declared.name,
            form=declared.metadata["form"],
            meaning=declared.metadata["meaning"],
            field=declared.name,
            default=declared.default_factory() if declared.default_factory is not MISSING else declared.default,
        )
        for declared in fields(record)
        if "form" in declared.metadata
    )


def read_record(record: type[Record], entry: Fields, unit: str = "") -> Record:
    """Read a record from a mapping. Its field `unit`, if it has one, is the unit of the amounts that follow it."""
    given: dict[str, Any] = {}
    for declared in keys_of(record):
        if declared.name in entry or declared.default is MISSING:
            given[declared.field] = declared.form.read(entry, declared.name, given.get("unit", unit))
    return record(**given)


def content_of(record: DataclassInstance, unit: str = "") -> dict[str, object]:
    """Return what stands in the file, in its order. A value names its unit itself."""
    unit = getattr(record, "unit", unit)
    given = ((declared, getattr(record, declared.field)) for declared in keys_of(type(record)))
    content = {
        declared.name: declared.form.write(value, unit)
        for declared, value in given
        if value is not None and value != declared.default
    }
    if "value" in content:
        content.pop("unit", None)
    return content


def names_of(record: type[DataclassInstance]) -> tuple[str, ...]:
    """Return the keys that a record may have."""
    return tuple(declared.name for declared in keys_of(record))


def record_of(record: type[DataclassInstance]) -> KeyForm:
    """Return the form of a record."""
    return KeyForm(
        "mapping",
        lambda entry, name, unit: read_record(record, Fields(entry.required(name), name, names_of(record)), unit),
        content_of,
        of=record,
    )


def records_of(record: type[DataclassInstance], what: str) -> KeyForm:
    """Return the form of several records by name, each called `what`."""
    return KeyForm(
        f"mapping from the name of a {what}",
        lambda entry, name, _: {
            item: read_record(record, Fields(node, f"{what} {item}", names_of(record)))
            for item, node in entry.mapping(name).items()
        },
        lambda values, _: {item: content_of(value) for item, value in values.items()},
        of=record,
    )
