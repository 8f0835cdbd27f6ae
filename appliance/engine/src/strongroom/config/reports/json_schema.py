"""The directive table as JSON Schema: what the values of `strongroom config show --json` may be.

`$defs` has an entry for every resource (`director.Job`) and block (`Include`): an object from the
shown names of directives to their effective values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from strongroom.config.table.keywords import KEYWORDS, OPTION_KEYWORDS, OWN_KEYWORDS
from strongroom.config.table.schema import schema
from strongroom.knobs.table import knob_of_directive

if TYPE_CHECKING:
    from strongroom.config.table.schema import DirectiveSpec, ResourceSpec

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_INTEGER_TYPES = frozenset(
    ("INT32", "MAXBLOCKSIZE", "PINT16", "PINT32", "SIZE32", "SIZE64", "SPEED", "TIME")
)
_STRING_LIST: dict[str, Any] = {"type": "array", "items": {"type": "string"}}


def json_schema(component: str | None = None) -> dict[str, Any]:
    """The schema of all components, or of one."""
    definitions: dict[str, Any] = {name: _object(block) for name, block in schema().blocks.items()}
    references = []
    for name, spec in schema().components.items():
        if component not in (None, name):
            continue
        for resource in spec.resources.values():
            definitions[f"{name}.{resource.name}"] = _object(resource)
            references.append({"$ref": f"#/$defs/{name}.{resource.name}"})
    return {
        "$schema": DIALECT,
        "title": "Strongroom configuration: effective values of a resource",
        "anyOf": references,
        "$defs": definitions,
    }


def _object(resource: ResourceSpec) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {spec.shown_name: _described(spec) for spec in resource.directives},
        "additionalProperties": False,
    }


def _described(spec: DirectiveSpec) -> dict[str, Any]:
    entry = _value(spec)
    if spec.description:
        entry["description"] = spec.description
    if spec.deprecated or spec.retired:
        entry["deprecated"] = True
    return entry


def _value(spec: DirectiveSpec) -> dict[str, Any]:
    if spec.block:
        return {"type": "array", "items": {"$ref": f"#/$defs/{spec.block}"}}
    if spec.type in ("BOOL", "BIT", "RUNSCRIPT_BOOL"):
        return {"type": "boolean"}
    if spec.type in _INTEGER_TYPES:
        knob = knob_of_directive(spec.key) if spec.type == "PINT32" else None
        bounds = {} if knob is None else {"maximum": knob.directive_most}
        return {"type": "integer", "minimum": 0, **bounds}
    if spec.type in ("ADDRESSES_PORT", "RUNSCRIPT_TARGET"):
        return {"type": ["integer", "string", "boolean"]}
    if spec.type == "RUN":
        return {"type": "array", "items": {"type": "object"}}
    if spec.type in ("MSGS", "ADDRESSES"):
        return {"type": "array", "items": {"type": "object"}}
    if spec.type == "OPTION":
        return _option(spec)
    if spec.repeatable:
        return dict(_STRING_LIST)
    if spec.type in KEYWORDS and spec.type != "KTLS":
        return {"type": ["string", "null"], "enum": [*KEYWORDS[spec.type], None]}
    return {"type": "string"}


def _option(spec: DirectiveSpec) -> dict[str, Any]:
    if spec.name == "StripPath":
        return {"type": "integer", "minimum": 0}
    words = OPTION_KEYWORDS.get(spec.name)
    if words is None:
        return {"type": "string"}
    if words == ("yes", "no"):
        return {"type": "boolean"}
    known = (*words, *OWN_KEYWORDS.get(spec.name, ()))
    return {"enum": sorted({word.lower() for word in known})}
