"""Remembered columns with the fields that were seen since: what is known stays, what is new comes behind it."""

from __future__ import annotations

from dataclasses import replace

from tidegate.specs import FieldSpec


def merged_fields(known: tuple[FieldSpec, ...], seen: tuple[FieldSpec, ...]) -> tuple[FieldSpec, ...]:
    """``known``, each with the new fields inside it, then the new ones; a known type is never changed."""
    found = {field.name: field for field in seen}
    names = {field.name.lower() for field in known}
    grown = tuple(_grown(field, found[field.name]) if field.name in found else field for field in known)
    return grown + tuple(field for field in seen if field.name.lower() not in names)


def _grown(known: FieldSpec, seen: FieldSpec) -> FieldSpec:
    if known.type != seen.type:
        return known
    if known.type == "struct":
        return replace(known, fields=merged_fields(known.fields, seen.fields))
    if known.items is not None and seen.items is not None:
        return replace(known, items=_grown(known.items, seen.items))
    return known
