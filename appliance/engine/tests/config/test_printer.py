"""Canonical printing: one layout, the same meaning, every comment kept."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from strongroom.base.errors import ConfigurationError
from strongroom.config.trees.loader import component_files
from strongroom.config.trees.printer import format_text

SITE = Path(__file__).parent / "data" / "site"
UGLY = """# top
@include/x  # why
Pool{Name="a b"; Recycle=true # c1
# c2


  Foo  = bar # unknown
  Volume Retention= # long
    1month2days
  Label Format = "x\\"y\\\\z"
  } # end
Unknown { a { b } }
Schedule{
Name=s
Run=full pool="x y" maxrunschedtime="2 h" 1st,3rd sat at 2:05

# last
}
Messages{ Name # odd
 = m # t
 mail = root@x, "a b" = all,!skipped
}
Director { Name = d; Password = secret; Plugin Names = a:b, "c d"
 Addresses = { ip = { addr = 1.2.3.4 # here
 port = 9101 } }
}
"""
PRETTY = """# top
@include/x  # why
Pool {
  Name = "a b"
  Recycle = yes  # c1
  # c2

  Foo  = bar # unknown
  # long
  Volume Retention = 1 month 2 days
  Label Format = "x\\"y\\\\z"
}  # end

Unknown { a { b } }
Schedule {
  Name = s
  Run = Level=Full Pool="x y" MaxRunSchedTime="2 h" 1st 3rd sat at 2:05

  # last
}

Messages {
  # odd
  Name = m  # t
  Mail = root@x, "a b" = all, !skipped
}

Director {
  Name = d
  Password = "secret"
  Plugin Names = a, b, "c d"
  Addresses = {
    ip = { addr = 1.2.3.4; port = 9101 }
  }
  # here
}
"""


def test_the_layout():
    assert format_text(UGLY, "director") == PRETTY


def test_printing_twice_changes_nothing():
    assert format_text(PRETTY, "director") == PRETTY


def trees():
    yield str(SITE)
    if "STRONGROOM_BAREOS_DEFAULTS" in os.environ:
        yield os.environ["STRONGROOM_BAREOS_DEFAULTS"]


@pytest.mark.parametrize("tree", list(trees()))
def test_every_file_of_a_tree(tree):
    for component, files in component_files(tree).items():
        for file in files:
            text = Path(file).read_text("utf-8")
            printed = format_text(text, component, path=file)
            assert printed.count("#") == text.count("#")
            assert format_text(printed, component) == printed


def test_a_text_with_errors_is_left_alone():
    with pytest.raises(ConfigurationError, match="left alone"):
        format_text("Pool { Name = p; Recycle = on }", "director")


@pytest.mark.parametrize(
    "text", ["", "\n\n", "# only\n", "\r\n# a\r\n", "#", "Pool { Name = p } #"]
)
def test_texts_without_much(text):
    printed = format_text(text, "director")
    assert format_text(printed, "director") == printed
    assert printed.count("#") == text.count("#")
