"""The effect of each directive of a tree: acted on, mapped to something else, or none.

A tree from Bareos or Bacula loads unchanged, but much of it is about tapes and volumes. `explain`
reports this for each directive, so that no one relies on one without effect.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache

from strongroom.config.table.schema import DirectiveSpec
from strongroom.config.table.types import read_table
from strongroom.config.trees.tree import Block, ComponentTree, Directive

ACTED_ON, MAPPED, NO_EFFECT = "acted on", "mapped", "no effect"


@dataclass(frozen=True, slots=True)
class Effect:
    """The effect of a directive, and why (or to what it is mapped)."""

    status: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class Explained:
    """A directive of a tree, its resource, and its effect."""

    component: str
    resource: str
    directive: Directive
    effect: Effect


@cache
def effect_of(component: str, resource: str, spec: DirectiveSpec) -> Effect:
    """The effect of a directive of `resource` (for a block within one, of the block's name)."""
    if spec.retired is not None and not spec.own:
        return Effect(NO_EFFECT, f"it was removed from the language; {spec.retired.instead}")
    if spec.bacula:
        return Effect(NO_EFFECT, "Bacula only, without an equivalent")
    names = (f"{component}.{resource}.{spec.name}", f"{resource}.{spec.name}")
    for pattern, status, why in _rules():
        if any(fnmatchcase(name, pattern) for name in names):
            return Effect(status, why)
    return Effect(ACTED_ON)


def explain(tree: ComponentTree) -> Iterator[Explained]:
    """Every directive of a tree with its effect, blocks opened, in reading order."""
    for block in tree.blocks:
        title = f"{block.spec.name} {block.name}".rstrip()
        yield from _explain(tree.component, title, block)


def _explain(component: str, title: str, block: Block) -> Iterator[Explained]:
    for directive in block.directives:
        if isinstance(directive.value, Block):
            inner = f"{title} / {directive.spec.name}"
            yield from _explain(component, inner, directive.value)
        else:
            effect = effect_of(component, block.spec.name, directive.spec)
            yield Explained(component, title, directive, effect)


@cache
def _rules() -> list[tuple[str, str, str]]:
    return [(pattern, status, why) for pattern, status, why in read_table("effects.json")]
