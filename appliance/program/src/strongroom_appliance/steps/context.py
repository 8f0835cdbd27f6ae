"""What a step gets, and how it says what it did."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from strongroom_appliance.answers.model import AnswerFile
from strongroom_appliance.machine import Machine
from strongroom_appliance.state import State


@dataclass(slots=True)
class Context:
    """say: where lines for people go. done: what the present step changed."""

    machine: Machine
    answers: AnswerFile
    state: State
    say: Callable[[str], None]
    done: list[str] = field(default_factory=list)

    def did(self, text: str) -> None:
        """Something was changed."""
        self.done.append(text)
        self.say(f"  {text}")
