"""Text to statements: the hand-written half of the language.

Two things make our own lexer necessary. Blanks inside a name do not count, so where a name
ends is known only at its `=` or `{`. And what follows depends on the directive: some values may
begin on a later line, some are blocks. So the parser pulls: `head` finds the next name, `value`
gives the tokens of its value, knowing the directive.

Every step is a regular expression with possessive repeats, so time is linear in the size of the
text whatever is in it. The common statement (`Name = value` on one line) takes two matches.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from strongroom.config.language.sources import SourceText

_BLANK = r"[ \t\f\v]"
_TRIVIA = r"(?:[ \t\f\v\r\n;]++|\#[^\r\n]*+)*+"
_INCLUDE = r'@(?:[^ \t\f\v\r\n={};,\#"]*+(?:"(?:[^"\\]++|\\.)*+")?+)'
_ALPHA = r"[A-Za-z]++(?=[ \t\f\v\r\n={};,\#\"]|\Z)"
_DIGITS = r"[0-9]++(?=[ \t\f\v\r\n;,]|\Z)"
_MIXED = r'[^ \t\f\v\r\n={};,\#"]++'

_HEAD = re.compile(
    rf"""{_TRIVIA}(?:(?P<close>\}})
    |(?P<name>[A-Za-z](?:[A-Za-z]|{_BLANK})*+){_TRIVIA}(?P<op>[={{])
    |(?P<include>{_INCLUDE})
    |(?P<end>\Z))""",
    re.VERBOSE | re.DOTALL,
)
_SKIP_TRIVIA = re.compile(_TRIVIA)
_SIMPLE_VALUE = re.compile(
    rf"""{_BLANK}*+(?:"([^"\\\r\n]*+)"(?!{_BLANK}*+(?:\r\n?|\n)?{_BLANK}*+")
    |({_ALPHA})|({_DIGITS})|(?!@)({_MIXED})){_BLANK}*+(?=[\r\n;\#}}]|\Z)""",
    re.VERBOSE,
)
_SIMPLE_KINDS = ("", "q", "w", "n", "x")
_TOKEN = re.compile(
    rf"""{_BLANK}*+(?:(?P<eol>\r\n?|\n|;)
    |(?P<comment>\#[^\r\n]*+)
    |"(?P<quoted>(?:[^"\\]++|\\.)*+)"
    |(?P<alpha>{_ALPHA})
    |(?P<digits>{_DIGITS})
    |(?P<mark>[=,{{])
    |(?P<close>\}})
    |(?P<mixed>{_MIXED})
    |(?P<open>")
    |(?P<end>\Z))""",
    re.VERBOSE | re.DOTALL,
)
# Once a quote was found unclosed no later quote can be closed either, and looking would cost a
# scan to the end of the file each time.
_TOKEN_WITHOUT_QUOTES = re.compile(
    _TOKEN.pattern.replace(r'"(?P<quoted>(?:[^"\\]++|\\.)*+)"', r"(?P<quoted>(?!))"),
    re.VERBOSE | re.DOTALL,
)
_KIND_OF_GROUP = {"quoted": "q", "alpha": "w", "digits": "n", "mixed": "x"}
_CONTINUED_QUOTE = re.compile(rf'(?:\r\n?|\n){_BLANK}*+"')
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_NEWLINE = re.compile(r"\r\n?")
_COMMENT = re.compile(r"\#[^\r\n]*+")
_LINE_REST = re.compile(r"[^\r\n]*+")

CLOSE, ASSIGN, OPEN, INCLUDE, END, BAD = "close", "assign", "open", "include", "end", "bad"


@dataclass(slots=True)
class StatementHead:
    """What begins at a place where a statement may begin.

    `offset` is where its text begins, `end` where the lexer continues after it. `text` is the name
    with its blanks, or the include with its `@`.
    """

    kind: str
    text: str
    offset: int
    end: int


@dataclass(slots=True)
class Value:
    """The tokens of a value: one letter of kind each, their text and where they stand."""

    kinds: str
    texts: list[str]
    offsets: list[int]
    end: int
    closed_by_brace: bool = False
    problem: tuple[str, int] | None = None  # what could not be read, and where


class Lexer:
    """Reads one Source from front to back; the parser holds the position."""

    def __init__(
        self, source: SourceText, *, keep_newlines: bool = True, token_limit: int = 100_000
    ) -> None:
        self.source = source
        self.text = source.text
        self.keep_newlines = keep_newlines
        self.token_limit = token_limit
        self._token = _TOKEN

    def head(self, position: int) -> StatementHead:
        """The item at or after `position`: a name with `=` or `{`, a `}`, an include, the end.

        BAD for anything else; its `end` is where the invalid token begins.
        """
        match = _HEAD.match(self.text, position)
        if match is None:
            skipped = _SKIP_TRIVIA.match(self.text, position)
            start = skipped.end() if skipped else position
            return StatementHead(BAD, self._word_at(start), start, start)
        kind = match.lastgroup
        if kind == "op":
            name = match["name"]
            opens = match["op"] == "{"
            return StatementHead(
                OPEN if opens else ASSIGN, name.rstrip(" \t\f\v"), match.start("name"), match.end()
            )
        assert kind is not None
        return StatementHead(kind, match[kind], match.start(kind), match.end())

    def comments(self, start: int, end: int) -> list[tuple[int, str]]:
        """The comments between two heads: (offset, text from the `#`)."""
        return [(match.start(), match[0]) for match in _COMMENT.finditer(self.text, start, end)]

    def skip_trivia(self, position: int) -> int:
        """The place of the next thing that is neither blank, end of statement nor comment."""
        match = _SKIP_TRIVIA.match(self.text, position)
        return match.end() if match else position

    def value(self, position: int) -> Value:
        """The tokens from `position` to the end of the statement, which is not passed.

        A `}` ends the value and stays. A quoted string continues in another that follows, also on
        the next line.
        """
        simple = _SIMPLE_VALUE.match(self.text, position)
        if simple is not None:
            group = simple.lastindex or 1
            return Value(_SIMPLE_KINDS[group], [simple[group]], [simple.start(group)], simple.end())
        return self._tokens(position)

    def _tokens(self, position: int) -> Value:
        kinds: list[str] = []
        texts: list[str] = []
        offsets: list[int] = []
        text = self.text
        problem: tuple[str, int] | None = None
        closed = False
        while True:
            match = self._token.match(text, position)
            group = match.lastgroup if match else "end"
            if match is None or group == "end":
                position = len(text)
                break
            if group == "eol":
                if kinds and kinds[-1] == "q" and _CONTINUED_QUOTE.match(text, match.start("eol")):
                    position = match.end()
                    continue
                position = match.start("eol")
                break
            if group == "comment":
                position = match.start("comment")
                break
            if group == "close":
                position = match.start("close")
                closed = True
                break
            if group == "open":
                problem = ("this quoted string is never closed", match.start("open"))
                self._token = _TOKEN_WITHOUT_QUOTES
                rest = _LINE_REST.match(text, match.start("open"))
                position = rest.end() if rest else len(text)
                break
            if len(kinds) >= self.token_limit:
                problem = (
                    f"a value has more than {self.token_limit} parts",
                    match.start(group or 0),
                )
                position = self.skip_statement(match.start(group or 0))
                break
            if group == "mark":
                kinds.append(match["mark"])
                texts.append(match["mark"])
                offsets.append(match.start("mark"))
            else:
                assert group is not None
                kinds.append(_KIND_OF_GROUP[group])
                word = match[group]
                texts.append(self._unescaped(word) if group == "quoted" else word)
                offsets.append(match.start(group))
            position = match.end()
        return Value("".join(kinds), texts, offsets, position, closed, problem)

    def skip_statement(self, position: int) -> int:
        """The place after the statement around `position`: braces that open in it close in it."""
        return self._skipped(position, depth=0)

    def skip_block(self, position: int) -> int:
        """The place after the `}` that closes the block whose `{` is before `position`."""
        return self._skipped(position, depth=1)

    def _skipped(self, position: int, depth: int) -> int:
        while True:
            match = self._token.match(self.text, position)
            group = match.lastgroup if match else "end"
            if match is None or group == "end":
                return len(self.text)
            if group == "open":
                self._token = _TOKEN_WITHOUT_QUOTES
            if group == "mark" and match["mark"] == "{":
                depth += 1
            elif group == "close":
                if depth == 0:
                    return match.start("close")
                depth -= 1
                if depth == 0:
                    return match.end()
            elif group == "eol" and depth == 0:
                return match.end()
            position = match.end()

    def _unescaped(self, quoted: str) -> str:
        if "\r" in quoted:
            quoted = _NEWLINE.sub("\n", quoted)
        if "\n" in quoted and not self.keep_newlines:
            quoted = quoted.replace("\n", "")
        return _ESCAPE.sub(r"\1", quoted) if "\\" in quoted else quoted

    def _word_at(self, position: int) -> str:
        match = self._token.match(self.text, position)
        if match is None or match.lastgroup in (None, "end"):
            return ""
        if match.lastgroup == "quoted":
            return f'"{match["quoted"][:60]}"'
        word: str = match[match.lastgroup or 0]
        return word[:60]
