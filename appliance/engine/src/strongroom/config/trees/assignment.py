"""`Name = value`: the tokens of a value to a Directive, or to errors at their places.

Here the parts meet: the lexer's tokens, the grammar that takes them apart, the converters that
make them typed. The parser (statements, blocks) calls this for every `=`.
"""

from __future__ import annotations

from strongroom.config.language.bounded_files import Reader
from strongroom.config.language.diagnostics import ERROR, NOTE, WARNING
from strongroom.config.language.grammar import EXPECTED, LIST, TEXT, Misfit, Shape, shape_of
from strongroom.config.language.lexer import Lexer, StatementHead, Value
from strongroom.config.language.sources import SourceText
from strongroom.config.table.dialects import Dialect
from strongroom.config.table.schema import DirectiveSpec
from strongroom.config.trees.tree import Block, Directive
from strongroom.config.values.converters import convert
from strongroom.config.values.forms import UnfitValueError, Words, form_of, parse_addresses
from strongroom.config.values.run_schedule import RUN_WORDS, RunError, parse_run


class Assignments:
    """Reads the values of one component's directives."""

    def __init__(self, component: str, dialect: Dialect, reader: Reader, *, strict: bool) -> None:
        self.component = component
        self.dialect = dialect
        self.reader = reader
        self.diagnostics = reader.diagnostics
        self.strict = strict
        self.of_rest = ERROR  # how bad it is when the rest of a line is not read
        self._rejected = ERROR if strict else WARNING
        self._add = reader.diagnostics.add
        self._forms: dict[tuple[str, str], tuple[str, bool]] = {}
        self._words = Words(dialect, strict, reader.diagnostics)

    def lexer(self, source: SourceText) -> Lexer:
        """A lexer for `source` as the dialect has it."""
        keeps = not self.dialect.is_bacula and self.dialect.version >= 24
        return Lexer(source, keep_newlines=keeps, token_limit=self.reader.limits.statement_tokens)

    def at(
        self,
        severity: str,
        code: str,
        message: str,
        head: StatementHead,
        source: SourceText,
        suggestion: str = "",
    ) -> None:
        """Report at the name that a statement begins with."""
        self._add(severity, code, message, source, head.offset, len(head.text), suggestion)

    def read(self, lexer: Lexer, block: Block, head: StatementHead, spec: DirectiveSpec) -> int:
        """Read the value after `head` into `block`; gives the place after it."""
        source = lexer.source
        known = self._forms.get((block.spec.name, spec.name))
        if known is None:
            known = (form_of(spec), spec.kind.may_begin_on_next_line)
            self._forms[block.spec.name, spec.name] = known
        form, skips_lines = known
        position = lexer.skip_trivia(head.end) if skips_lines else head.end
        if spec.type == "ADDRESSES":
            return self._addresses(lexer, block, head, spec, position)
        value = lexer.value(position)
        if value.texts and value.texts[0][:1] == "@" and value.kinds[0] == "x":
            value = self._included_value(lexer, value)
        if value.problem is not None:
            self._add(ERROR, "quote", value.problem[0], source, value.problem[1])
        elif spec.type == "RUN":
            self._run(block, head, spec, value, source)
        else:
            shape = shape_of(form, value.kinds)
            if isinstance(shape, Misfit):
                self._misfit(head, spec, value, form, shape, source)
            else:
                self._convert(block, head, spec, value, form, shape, source)
        return value.end

    def _convert(
        self,
        block: Block,
        head: StatementHead,
        spec: DirectiveSpec,
        value: Value,
        form: str,
        shape: Shape,
        source: SourceText,
    ) -> None:
        texts, kinds = value.texts, value.kinds
        if len(texts) == 1:
            groups = [texts]
            group_kinds = [[kinds]]
        else:
            groups = [["".join(texts[a:b]) for a, b in group] for group in shape.groups]
            group_kinds = [[kinds[a] for a, _ in group] for group in shape.groups]
            self._explain_reading(spec.shown_name, value, form, shape, source)
        words = self._words
        words.groups, words.kinds = groups, group_kinds
        words.value, words.shape, words.source = value, shape, source
        words.needs_clear_password = spec.type == "AUTOPASSWORD" and self._speaks_ndmp(block)
        try:
            raw, typed = convert(spec, words)
        except UnfitValueError as problem:
            severity = self._rejected if problem.code == "own" else ERROR
            words.report(severity, problem.code, str(problem), problem.part, problem.suggestion)
            return
        self._store(block, Directive(spec, raw, typed, source, head.offset), head)

    def _store(self, block: Block, directive: Directive, head: StatementHead) -> None:
        spec = directive.spec
        if not spec.repeatable and spec.type != "OPTION":
            earlier = block.by_key.get(spec.key)
            if earlier is not None:
                severity, word = (
                    (ERROR, "may") if spec.type in ("NAME", "RES") else (NOTE, "should")
                )
                self.at(
                    severity,
                    "given-twice",
                    f"{spec.shown_name} {word} be given only once; it was on line {earlier.line}",
                    head,
                    directive.source,
                )
        block.add(directive)

    def _explain_reading(
        self, shown_name: str, value: Value, form: str, shape: Shape, source: SourceText
    ) -> None:
        if shape.junk is not None:
            offset = value.offsets[shape.junk]
            rest = source.text[offset : value.end].rstrip()
            if rest.startswith(","):
                remedy = f"repeat {shown_name} for each value"
            else:
                remedy = (
                    "begin a directive on a new line or after `;`, and quote a value with blanks"
                )
            self._add(
                self.of_rest,
                "rest-dropped",
                f"the rest of the line is ignored: {rest[:60]}; {remedy}",
                source,
                offset,
                len(rest),
            )
        if form in (TEXT, LIST):
            for a, b in (span for group in shape.groups for span in group):
                if b - a > 1 and value.kinds[a] == "w":
                    read = "".join(value.texts[a:b])
                    self._add(
                        NOTE,
                        "blanks-dropped",
                        f"without quotes blanks do not count: this is read as {read}",
                        source,
                        value.offsets[a],
                        value.offsets[b - 1] + len(value.texts[b - 1]) - value.offsets[a],
                    )

    def _misfit(
        self,
        head: StatementHead,
        spec: DirectiveSpec,
        value: Value,
        form: str,
        misfit: Misfit,
        source: SourceText,
    ) -> None:
        if not value.kinds:
            message = f"{spec.shown_name} has no value; expected {EXPECTED[form]}"
            self.at(ERROR, "no-value", message, head, source)
            return
        index = min(misfit.token, len(value.kinds) - 1)
        got = (
            "the end of the statement"
            if misfit.token >= len(value.kinds)
            else f"`{value.texts[index][:40]}`"
        )
        self._add(
            ERROR,
            "syntax",
            f"{spec.shown_name}: expected {EXPECTED[form]}, got {got}",
            source,
            value.offsets[index],
            len(value.texts[index]),
        )

    def _run(
        self,
        block: Block,
        head: StatementHead,
        spec: DirectiveSpec,
        value: Value,
        source: SourceText,
    ) -> None:
        if value.closed_by_brace:
            message = "a Run must end with its line or a `;` before the `}`"
            self._add(ERROR, "run", message, source, value.end)
            return
        if not value.kinds:
            self.at(ERROR, "no-value", "Run has no value", head, source)
            return
        try:
            raw, run = parse_run(value.kinds, value.texts)
        except RunError as problem:
            index = min(problem.token, len(value.texts) - 1)
            word, offset = value.texts[index], value.offsets[index]
            meant = self.diagnostics.suggest(word, RUN_WORDS, "run") if word.isalpha() else ""
            # A word that is right, at a place where it is not, is no misspelling.
            meant = "" if meant.lower() == word.lower() else meant
            self._add(ERROR, "run", str(problem), source, offset, len(word), meant)
            return
        block.add(Directive(spec, raw, run, source, head.offset))

    def _addresses(
        self, lexer: Lexer, block: Block, head: StatementHead, spec: DirectiveSpec, position: int
    ) -> int:
        source = lexer.source
        if source.text[position : position + 1] != "{":
            message = f"{spec.shown_name} takes a block: {{ ip = {{ addr = ...; port = ... }} }}"
            self._add(ERROR, "syntax", message, source, min(position, len(source.text)))
            return lexer.skip_statement(head.end)
        end = lexer.skip_block(position + 1)
        raw, addresses, problem = parse_addresses(source.text[position:end])
        if problem is not None:
            self._add(ERROR, "addresses", problem[0], source, position + problem[1])
        else:
            block.add(Directive(spec, raw, addresses, source, head.offset))
        return end

    def _included_value(self, lexer: Lexer, value: Value) -> Value:
        """The value that an `@file` in its place means: the file's first statement."""
        quoted = len(value.texts) > 1 and value.kinds[1] == "q" and value.texts[0] in ("@", "@|")
        text = f'{value.texts[0]}"{value.texts[1]}"' if quoted else value.texts[0]
        sources = self.reader.included(text, lexer.source, value.offsets[0])
        if not sources:
            return Value(
                "", [], [], value.end, problem=("nothing is included here", value.offsets[0])
            )
        inner = self.lexer(sources[0])
        found = inner.value(inner.skip_trivia(0))
        # Positions stay those of the `@`, in the file that holds the directive.
        offsets = [value.offsets[0]] * len(found.offsets)
        problem = (found.problem[0], value.offsets[0]) if found.problem else None
        return Value(found.kinds, found.texts, offsets, value.end, value.closed_by_brace, problem)

    def _speaks_ndmp(self, block: Block) -> bool:
        protocol = block.last("protocol")
        return protocol is not None and str(protocol.value).upper().startswith("NDMP")
