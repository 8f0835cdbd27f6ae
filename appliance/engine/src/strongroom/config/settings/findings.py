"""What a component could not carry out, reported at the directive that says it.

An error is what can never run, of a job that is enabled; of a disabled one it is a warning, as is
what runs otherwise than it is written. What depends on the state of a machine (files, folders, a
certificate) is for `--check` of the daemons.
"""

from __future__ import annotations

from dataclasses import dataclass

from strongroom.config.language.diagnostics import ERROR, WARNING, Diagnostics
from strongroom.config.model import ComponentConfiguration, Resource
from strongroom.config.trees.tree import Block, Directive


@dataclass(frozen=True, slots=True)
class Findings:
    """Where findings about a component go."""

    component: ComponentConfiguration
    diagnostics: Diagnostics

    def resource(self, kind: str, name: str) -> Resource:
        """A resource that is there."""
        found = self.component.find(kind, name)
        assert found is not None
        return found

    def error(self, code: str, message: str, resource: Resource, *attributes: str) -> None:
        """An error; see `at`."""
        self.at(ERROR, code, message, resource, *attributes)

    def warning(self, code: str, message: str, resource: Resource, *attributes: str) -> None:
        """A warning; see `at`."""
        self.at(WARNING, code, message, resource, *attributes)

    def at(
        self, severity: str, code: str, message: str, resource: Resource, *attributes: str
    ) -> None:
        """A finding at the first of these attributes that is set, else at the resource."""
        for attribute in attributes:
            if directives := resource.directives(attribute):
                self.at_directive(severity, code, message, directives[0])
                return
        self.at_block(severity, code, message, resource.block)

    def at_block(self, severity: str, code: str, message: str, block: Block) -> None:
        """A finding where a resource begins."""
        source, offset = block.source, block.offset
        self.diagnostics.add(severity, code, message, source, offset, len(block.spec.name))

    def at_directive(
        self, severity: str, code: str, message: str, directive: Directive, suggestion: str = ""
    ) -> None:
        """A finding at one directive."""
        source, offset, length = directive.source, directive.offset, len(directive.spec.name)
        self.diagnostics.add(severity, code, message, source, offset, length, suggestion)
