"""A knob: one setting with one meaning, however it is spelled.

A knob has a name (a field of `Tuning` where it tunes one backup), and up to three spellings: a
directive of the configuration, an option of the command line, a variable of the inventory. A
NamedTuple and not a dataclass: every command imports this, and importing dataclasses takes longer
than importing this.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Kind = Literal["number", "switch", "word", "text", "rate"]
Change = Literal["speed", "content", "protection"]
Spelling = Literal["directive", "option"]
Value = bool | int | str

# What a directive of the type PINT32 can hold.
_MOST_OF_DIRECTIVE = (1 << 32) - 1


class Option(NamedTuple):
    """An option of the command line.

    flag: with its dashes. help: its line in `--help`. metavar: the placeholder of its value, "" for
    an option that takes none. command: the one that has it, "" for all that take `--repo`.
    """

    flag: str
    help: str
    metavar: str = ""
    command: str = "backup"


class Knob(NamedTuple):
    """One knob.

    kind: a number (whole, least to most), a switch, a word out of `words`, free text, or a rate in
    bytes per second. default: its value where no one sets it. unit: what a number counts.
    summary: what it does, in full sentences; documentation of the directive as well. seen_in: the
    program, or the text on speed, that it is taken from.

    directive: its name as the printer of the configuration writes it. places: the resources where
    the directive acts, as `director.Client`; a block within a resource has no component. Of a
    number, `directive_scale` of the directive's units make one of the option's, and
    `directive_unit` is what the directive counts.

    zero: of a number what 0 means. zero_is_default: 0 means the default.
    is_limit: the highest number that anybody says counts, so no one lifts the limit of another.
    changes: what it changes: the content of the backup, the protection of data on its way, or only
    speed and size. Only the last kind may be tried by measuring; candidates: values worth that.
    effect: what to expect of another value. evidence: the page of the documentation that has the
    measurement, "" for what no one has measured.
    """

    name: str
    kind: Kind
    default: Value
    summary: str
    seen_in: str
    unit: str = ""
    least: int = 0
    most: int = 1 << 20
    zero: str = ""
    zero_is_default: bool = False
    is_limit: bool = False
    words: tuple[str, ...] = ()
    words_shown: str = ""
    option: Option | None = None
    directive: str = ""
    places: tuple[str, ...] = ()
    directive_scale: int = 1
    directive_unit: str = ""
    changes: Change = "speed"
    candidates: tuple[Value, ...] = ()
    effect: str = ""
    evidence: str = ""

    @property
    def variable(self) -> str:
        """The variable of the inventory; "" for a knob without a directive that it could set."""
        return f"strongroom_{self.name}" if self.directive else ""

    @property
    def directive_default(self) -> str | None:
        """The default as the directive says it; None where the directive has none."""
        if self.kind == "switch":
            return "yes" if self.default else "no"
        if self.kind == "rate" or self.default == "":
            return None
        if self.kind == "number":
            return str(int(self.default) * self.directive_scale)
        return str(self.default)

    @property
    def directive_most(self) -> int:
        """The greatest number that the directive takes."""
        return min(self.most * self.directive_scale, _MOST_OF_DIRECTIVE)

    @property
    def expected(self) -> str:
        """What values it takes, for messages about others."""
        if self.kind == "number":
            return f"a whole number from {self.least} to {self.most}"
        if self.kind == "switch":
            return "yes or no"
        return f"one of {self.words_shown or ', '.join(self.words)}" if self.words else "a text"

    def has_directive_in(self, resource: str) -> bool:
        """Whether a resource of this type may set it, of whichever component."""
        return any(place.rpartition(".")[2] == resource for place in self.places)

    def from_directive(self, value: int | bool | str) -> Value:
        """The knob's value for a typed value of its directive.

        Of a scaled number at least 2 come out, for fewer pages are of no use; 0 stays 0.
        """
        if self.directive_scale == 1 or not value:
            return value
        return max(2, int(value) // self.directive_scale)

    def spelled(self, value: Value, spelling: Spelling) -> str:
        """A setting as a user would write it: `--workers 3`, `Scan Threads = 3`."""
        if spelling == "option" and self.option is not None:
            return f"{self.option.flag} {value}" if self.option.metavar else self.option.flag
        return f"{self.directive or self.name} = {value}"
