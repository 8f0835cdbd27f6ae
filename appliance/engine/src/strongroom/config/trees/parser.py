"""Statements to blocks of directives, with every error reported and parsing resumed after it.

The lexer is asked for the next name, the table says what kind of value follows, the grammar takes
the value's tokens apart, `values` makes them typed. After an error parsing resumes at the next
statement: the end of the line or a `;`, a block skipped whole. A `Type {` at the start of a line
inside a resource means that a `}` was forgotten, and begins the next resource.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from strongroom.config.language import lexer as lex
from strongroom.config.language.bounded_files import Reader
from strongroom.config.language.diagnostics import ERROR, NOTE, WARNING
from strongroom.config.language.lexer import Lexer, StatementHead
from strongroom.config.language.sources import SourceText
from strongroom.config.table.dialects import Dialect, Verdict, verdict_on, where_else
from strongroom.config.table.schema import (
    ComponentSpec,
    DirectiveSpec,
    ResourceSpec,
    key_of,
    schema,
)
from strongroom.config.trees.assignment import Assignments
from strongroom.config.trees.tree import Block, Comment, ComponentTree, Directive, Verbatim

_EXCLUDE_HOLDS = "file"
_EXPLAINED_NAMES = 1000  # suggestions are made for so many unknown names


class Parser:
    """Parses the sources of one component into one ComponentTree."""

    def __init__(
        self,
        component: ComponentSpec,
        dialect: Dialect,
        reader: Reader,
        *,
        strict: bool = False,
        rejects_unknown: bool = False,
        layout: bool = False,
    ) -> None:
        self.component = component
        self.dialect = dialect
        self.reader = reader
        self.diagnostics = reader.diagnostics
        self.strict = strict
        self.layout = layout
        self.tree = ComponentTree(component.name)
        self._of_unknown = ERROR if rejects_unknown else WARNING
        self._verdicts: dict[tuple[str, str], Verdict] = {}
        self._assignments = Assignments(component.name, dialect, reader, strict=strict)
        # Bareos drops the rest of a line without a word, so its own tree may have one.
        self._assignments.of_rest = NOTE if strict else ERROR if rejects_unknown else WARNING
        self._at = self._assignments.at
        self._add = reader.diagnostics.add
        self._resource_names = tuple(spec.name for spec in component.resources.values())
        self._unknown_names: dict[tuple[str, str], tuple[str, str]] = {}
        self._named: dict[tuple[str, str], Block] = {}

    def parse(self, source: SourceText) -> None:
        """Add the resources of `source` to the tree."""
        self.reader.enter(source)
        self._statements(self._assignments.lexer(source), None, 0)
        self.reader.leave()
        if self.layout:
            _note_blank_lines(self.tree.items, source.text)

    def _statements(
        self, lexer: Lexer, block: Block | None, position: int, *, nested: bool = False
    ) -> int:
        """Parse statements from `position` into `block` (None: resources into the tree).

        Gives the place after the `}` that ends a `nested` block, else the end of the text.
        """
        source = lexer.source
        while True:
            head = lexer.head(position)
            kind = head.kind
            if self.layout:
                self._keep_comments(lexer, block, position, head.offset)
            if kind in (lex.ASSIGN, lex.OPEN):
                if block is None:
                    position = self._resource(lexer, head)
                elif kind == lex.OPEN and self._brace_is_missing(head, block, source):
                    self._at(
                        ERROR,
                        "missing-brace",
                        f"a `}}` is missing: {block.spec.name} of line {block.line} is still open",
                        head,
                        source,
                    )
                    return head.offset
                else:
                    position = self._directive(lexer, block, head)
            elif kind == lex.CLOSE:
                if nested:
                    return head.end
                self._add(ERROR, "brace", "a `}` without its `{`", source, head.offset)
                position = head.end
            elif kind == lex.INCLUDE:
                position = head.end
                self._include(head, block, source)
            elif kind == lex.END:
                if nested and block is not None:
                    self._add(
                        ERROR,
                        "unclosed",
                        f"the file ends within {block.spec.name} begun on line {block.line}",
                        source,
                        block.offset,
                        len(block.spec.name),
                    )
                return head.end
            else:
                position = self._odd(lexer, head, block)

    def _resource(self, lexer: Lexer, head: StatementHead) -> int:
        source = lexer.source
        if head.kind == lex.ASSIGN:
            self._at(ERROR, "outside", f"{head.text} is outside of any resource", head, source)
            return self._skip_value(lexer, head, None)
        key = key_of(head.text)
        spec = self._resource_spec(key, head, source)
        if spec is None:
            end = lexer.skip_block(head.end)
            self._keep_verbatim(None, source, head.offset, end)
            return end
        self._keep_inner_comments(lexer, None, head)
        block = Block(spec, source, head.offset, layout=self.layout)
        if spec.deprecated and not self.dialect.is_bacula:
            self._at(
                WARNING,
                "deprecated",
                f"{spec.name} is deprecated: Label Format takes no variables any more",
                head,
                source,
            )
        end = self._statements(lexer, block, head.end, nested=True)
        self._finish(block)
        return end

    def _resource_spec(
        self, key: str, head: StatementHead, source: SourceText
    ) -> ResourceSpec | None:
        known = self.component.resources
        if key in known:
            return known[key]
        if key in self.component.aliases:
            if not self.dialect.is_bacula:
                name = known[self.component.aliases[key]].name
                message = f"resource alias {head.text}: write {name}"
                self._at(WARNING, f"resource alias {head.text}", message, head, source)
            return known[self.component.aliases[key]]
        if self.dialect.is_bacula and key in self.component.bacula_aliases:
            return known[self.component.bacula_aliases[key]]
        if self.dialect.is_bacula and key in self.component.bacula_ignored:
            self._at(NOTE, "ignored", f"{head.text} has no effect here", head, source)
            return None
        others = [
            component.name
            for component in schema().components.values()
            if key in component.resources and component.name != "monitor"
        ]
        where = f"; it belongs to the {' or the '.join(others)}" if others else ""
        self._at(
            self._of_unknown,
            "unknown-resource",
            f"the {self.component.name} has no resource {head.text}{where}",
            head,
            source,
            self.diagnostics.suggest(head.text, self._resource_names, self.component.name),
        )
        return None

    def _finish(self, block: Block) -> None:
        """Check what can be checked of a resource by itself."""
        name = block.name
        spec = block.spec
        where = (block.source, block.offset, len(spec.name))
        if not block.was_written("name"):
            self._add(ERROR, "no-name", f"this {spec.name} has no Name", *where)
        elif name:
            earlier = self._named.setdefault((spec.name, name), block)
            if earlier is not block:
                path, line = earlier.source.path, earlier.line
                self._add(
                    ERROR,
                    "duplicate",
                    f"{spec.name} {name} is defined before, in {path}:{line}",
                    *where,
                )
        self.tree.blocks.append(block)
        self.tree.items.append(block)

    def _directive(self, lexer: Lexer, block: Block, head: StatementHead) -> int:
        source = lexer.source
        key = key_of(head.text)
        spec = block.spec.by_key.get(key)
        if spec is None:
            self._unknown(block, key, head, source)
            return self._skip_value(lexer, head, block)
        verdict = self._verdicts.get((block.spec.name, key))
        if verdict is None:
            verdict = verdict_on(spec, block.spec, self.dialect, strict=self.strict)
            self._verdicts[block.spec.name, key] = verdict
        if verdict.severity:
            self._at(verdict.severity, verdict.code, verdict.message, head, source)
        if block.spec.name == "Exclude" and key != _EXCLUDE_HOLDS:
            message = f"{spec.shown_name} is not permitted in Exclude, which holds File only"
            self._at(ERROR, "exclude", message, head, source)
            return self._skip_value(lexer, head, block)
        if spec.block:
            return self._inner_block(lexer, block, head, spec)
        if head.kind == lex.OPEN:
            message = f"{spec.shown_name} needs an `=` before its value"
            self._add(ERROR, "equals", message, source, head.end - 1)
            block.refuse(spec.key)
            return self._skip_value(lexer, head, block)
        self._keep_inner_comments(lexer, block, head)
        end = self._assignments.read(lexer, block, head, spec)
        if spec.key not in block.by_key:
            block.refuse(spec.key)
        if self.layout and spec.type == "ADDRESSES":
            self._keep_comments(lexer, block, lexer.skip_trivia(head.end), end, own_line=True)
        return end

    def _inner_block(
        self, lexer: Lexer, block: Block, head: StatementHead, spec: DirectiveSpec
    ) -> int:
        source = lexer.source
        position = head.end
        self._keep_inner_comments(lexer, block, head)
        if head.kind == lex.ASSIGN:
            self._add(
                ERROR, "equals", f"{spec.name} takes a `{{` without an `=`", source, head.end - 1
            )
            position = lexer.skip_trivia(head.end)
            if source.text[position : position + 1] != "{":
                return self._skip_value(lexer, head, block)
            position += 1
        inner = Block(schema().blocks[spec.block], source, head.offset, layout=self.layout)
        end = self._statements(lexer, inner, position, nested=True)
        block.add(Directive(spec, None, inner, source, head.offset))
        return end

    def _include(self, head: StatementHead, block: Block | None, source: SourceText) -> None:
        if self.layout:
            self._keep_verbatim(block, source, head.offset, head.end)
            return
        for included in self.reader.included(head.text, source, head.offset):
            self.reader.enter(included)
            self._statements(self._assignments.lexer(included), block, 0)
            self.reader.leave()

    def _unknown(self, block: Block, key: str, head: StatementHead, source: SourceText) -> None:
        explained = self._unknown_names.get((block.spec.name, key))
        if explained is None:
            explained = self._explain_unknown(block.spec, key, head.text)
            if len(self._unknown_names) < _EXPLAINED_NAMES:
                self._unknown_names[block.spec.name, key] = explained
        where, suggestion = explained
        self._at(
            self._of_unknown,
            "unknown-directive",
            f"{block.spec.name} has no directive {head.text[:60]}{where}",
            head,
            source,
            suggestion,
        )

    def _explain_unknown(self, resource: ResourceSpec, key: str, text: str) -> tuple[str, str]:
        """Where the directive belongs, and what was probably meant; both may be ""."""
        if len(self._unknown_names) >= _EXPLAINED_NAMES:
            return "", ""
        suggestion = self.diagnostics.suggest(text, _usable_names(resource), resource.name)
        return ("" if suggestion else where_else(key, resource)), suggestion

    def _odd(self, lexer: Lexer, head: StatementHead, block: Block | None) -> int:
        """Report text that cannot begin a statement, and skip it."""
        wanted = f"a directive of {block.spec.name}" if block else "a resource"
        suggestion = ""
        if head.text.isalpha():
            message = f"expected an `=` or `{{` after `{head.text}`"
        elif head.text[:1].isalpha():
            message = f"expected {wanted}, got `{head.text}`"
            names = _usable_names(block.spec) if block else self._resource_names
            suggestion = self.diagnostics.suggest(head.text, names, wanted)
        else:
            message = f"expected {wanted}, got `{head.text}`"
        self._at(ERROR, "syntax", message, head, lexer.source, suggestion)
        end = lexer.skip_statement(head.end)
        # A lone mark that opens nothing must not stop the parser from advancing.
        end = max(end, head.end + 1) if lexer.text[head.end : head.end + 1] != "}" else end
        self._keep_verbatim(block, lexer.source, head.offset, end)
        return end

    def _skip_value(self, lexer: Lexer, head: StatementHead, block: Block | None) -> int:
        if head.kind == lex.OPEN:
            end = lexer.skip_block(head.end)
        else:
            end = lexer.skip_statement(head.end)
        self._keep_verbatim(block, lexer.source, head.offset, end)
        return end

    def _brace_is_missing(self, head: StatementHead, block: Block, source: SourceText) -> bool:
        at_line_start = head.offset == 0 or source.text[head.offset - 1] in "\r\n"
        key = key_of(head.text)
        known = block.spec.by_key.get(key)
        takes_block = known is not None and known.block
        return at_line_start and key in self.component.resources and not takes_block

    def _keep_inner_comments(self, lexer: Lexer, block: Block | None, head: StatementHead) -> None:
        """Keep what is between a name and its value; it moves before the statement."""
        if self.layout:
            end = head.end if head.kind == lex.OPEN else lexer.skip_trivia(head.end)
            start = head.offset + len(head.text)
            self._keep_comments(lexer, block, start, end, own_line=True)

    def _keep_comments(
        self, lexer: Lexer, block: Block | None, start: int, end: int, *, own_line: bool = False
    ) -> None:
        items = self.tree.items if block is None else block.items
        for offset, text in lexer.comments(start, end):
            line_start = (
                max(lexer.text.rfind("\n", 0, offset), lexer.text.rfind("\r", 0, offset)) + 1
            )
            alone = not lexer.text[line_start:offset].strip(" \t\f\v")
            items.append(Comment(text, offset, trailing=not alone and not own_line))

    def _keep_verbatim(self, block: Block | None, source: SourceText, start: int, end: int) -> None:
        if self.layout:
            text = source.text[start:end].strip(" \t\r\n;")
            (self.tree.items if block is None else block.items).append(Verbatim(text, start))


@cache
def _usable_names(resource: ResourceSpec) -> tuple[str, ...]:
    """The directives that may be suggested in a resource."""
    return tuple(
        spec.shown_name for spec in resource.directives if not spec.retired and not spec.bacula
    )


def _note_blank_lines(items: list[Any], text: str) -> None:
    """Set `blank_before` of every item that is first on its line and follows an empty line."""
    for item in items:
        line_start = text.rfind("\n", 0, item.offset) + 1
        if line_start > 0 and not text[line_start : item.offset].strip():
            previous = text.rfind("\n", 0, line_start - 1) + 1
            item.blank_before = not text[previous : line_start - 1].strip()
        inner = item.value if isinstance(item, Directive) else item
        if isinstance(inner, Block):
            _note_blank_lines(inner.items, text)
