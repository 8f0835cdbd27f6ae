"""Count the engine's lines and modules, and draw which package imports which.

`make picture` does that for the present code, as `after`: it prints the counts, draws
docs/images/imports-after.svg and writes the table of both states into results/imports.md.
Another state takes its sources, from its own worktree:

    git worktree add /tmp/before fa9769a9
    python -m strongroom_bench.import_picture before --source /tmp/before/appliance/engine/src

Imports inside functions and imports for types alone count too. A circle is a set of modules and
packages in one folder that import each other, directly or by others of them.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

import grimp

from strongroom_bench.places import DOCUMENTS, ENGINE, RESULTS

ROOT = "strongroom"
NUMBERS = RESULTS / "imports.json"
PAGE = RESULTS / "imports.md"
IMAGES = "../../../../docs/images"
BEGIN, END = "<!-- figures: written by make picture -->", "<!-- end of figures -->"
TITLES = {
    "lines": "lines",
    "modules": "modules",
    "alone": "modules with one importer",
    "long": "modules of more than 400 lines",
    "packages": "packages",
    "largest": "modules in the largest package",
    "depth": "deepest module, in folders below the package",
    "parameters": "most parameters of a function",
    "import_lines": "lines of imports",
    "comments": "lines that are comments",
    "circles": "circles",
    "sideways": "imports among director, storage daemon and agent",
}

WIDTH, MARGIN, GAP, BAND_GAP = 1180, 150, 20, 32
SQUARE, PITCH, COLUMNS, HEAD = 7, 9, 12, 22


class Imports(NamedTuple):
    """modules: of each package. edges: package to package, with the number of imports.

    circular: those of them that are part of a circle.
    """

    layers: list[list[str]]
    modules: dict[str, list[str]]
    edges: Counter[tuple[str, str]]
    circular: set[tuple[str, str]]
    numbers: dict[str, int | str]


class Box(NamedTuple):
    """Where a package is drawn."""

    x: float
    y: float
    width: float
    height: float


def read_imports(source: Path) -> Imports:
    """Imports of the package below `source`, and its layers, the highest first."""
    sys.path.insert(0, str(source))
    graph = grimp.build_graph(ROOT, cache_dir=None)
    with (source.parent / "pyproject.toml").open("rb") as file:
        contract = tomllib.load(file)["tool"]["importlinter"]["contracts"][0]
    layers = [re.findall(r"\w+", names) for names in contract["layers"]]
    parents = {one.rpartition(".")[0] for one in graph.modules}
    modules: dict[str, list[str]] = defaultdict(list)
    for module in sorted(graph.modules - parents):
        if package := _package(module):
            modules[package].append(module)
    edges: Counter[tuple[str, str]] = Counter()
    siblings: dict[str, set[str]] = defaultdict(set)
    origins: dict[tuple[str, str], set[tuple[str, str]]] = defaultdict(set)
    for module in graph.modules - parents:
        for imported in graph.find_modules_directly_imported_by(module):
            pair = _siblings(module, imported)
            siblings[pair[0]].add(pair[1])
            edge = _package(module), _package(imported)
            if imported not in parents and all(edge) and edge[0] != edge[1]:
                edges[edge] += 1
                origins[edge].add(pair)
    groups = [set(group) for group in circles(siblings)]
    circular = {
        edge
        for edge, pairs in origins.items()
        if any(group.issuperset(pair) for pair in pairs for group in groups)
    }
    largest = max(modules, key=lambda name: len(modules[name]))
    importers = Counter(
        imported
        for module in graph.modules
        for imported in graph.find_modules_directly_imported_by(module)
    )
    numbers: dict[str, int | str] = {
        **count_lines(source / ROOT),
        "alone": sum(importers[one] == 1 for one in graph.modules - parents),
        "packages": len(modules),
        "largest": f"{len(modules[largest])} ({largest})",
        "circles": len(groups),
        "sideways": sum(count for edge, count in edges.items() if _is_sideways(*edge)),
    }
    return Imports(layers, dict(modules), edges, circular, numbers)


def count_lines(folder: Path) -> dict[str, int | str]:
    """Modules below `folder`, their lines, and what these are."""
    files = [(path, path.read_text("utf-8")) for path in sorted(folder.rglob("*.py"))]
    lines = sum(text.count("\n") for _, text in files)
    nodes = [node for _, text in files for node in ast.walk(ast.parse(text))]
    imports = [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    comments = sum(len(re.findall(r"^\s*#", text, re.MULTILINE)) for _, text in files)
    import_lines = sum((node.end_lineno or node.lineno) - node.lineno + 1 for node in imports)
    return {
        "lines": lines,
        "modules": len(files),
        "long": sum(text.count("\n") > 400 for _, text in files),
        "depth": max(len(path.relative_to(folder).parts) - 1 for path, _ in files),
        "parameters": max(map(_parameter_count, functions)),
        "import_lines": f"{import_lines} ({import_lines / lines:.1%})",
        "comments": f"{comments} ({comments / lines:.1%})",
    }


def _parameter_count(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """How many a caller may give, without `self` and `cls`."""
    named = function.args
    names = [one.arg for one in (*named.posonlyargs, *named.args, *named.kwonlyargs)]
    return len([name for name in names if name not in ("self", "cls")])


def _package(module: str) -> str:
    """The package that a module is drawn in; "" for the few that are above all layers."""
    return "/".join(module.split(".")[1:-1][:3])


def _siblings(importer: str, imported: str) -> tuple[str, str]:
    """The parts of both in the folder that they have in common."""
    one, other = importer.split("."), imported.split(".")
    depth = 0
    while one[depth : depth + 1] == other[depth : depth + 1] and depth < len(other) - 1:
        depth += 1
    return ".".join(one[: depth + 1]), ".".join(other[: depth + 1])


def _is_sideways(importer: str, imported: str) -> bool:
    rooms = [name.removeprefix("daemons/").split("/")[0] for name in (importer, imported)]
    daemons = [room for room in rooms if room in ("agent", "director", "storage")]
    return len(daemons) == 2 and daemons[0] != daemons[1]


def circles(edges: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """The sets of more than one node that all reach each other."""
    reach: dict[str, set[str]] = {}
    for start in edges:
        found: set[str] = set()
        waiting = [start]
        while waiting:
            for after in edges.get(waiting.pop(), ()):
                if after not in found:
                    found.add(after)
                    waiting.append(after)
        reach[start] = found
    together = {
        tuple(sorted(other for other in reach[one] if one in reach.get(other, ()))) for one in reach
    }
    return sorted(list(group) for group in together if len(group) > 1)


def draw(imports: Imports) -> str:
    """The picture: a band for each layer, a square for each module."""
    boxes: dict[str, Box] = {}
    bands: list[tuple[str, float, float]] = []
    top = 36.0
    for layer in imports.layers:
        names = [name for name in sorted(imports.modules) if name.split("/")[0] in layer]
        if names:
            bottom = _place(names, imports.modules, top, boxes)
            bands.append(("daemons" if len(layer) > 2 else " ".join(layer), top, bottom))
            top = bottom + BAND_GAP
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top:.0f}" '
            'font-family="system-ui, \'DejaVu Sans\', sans-serif" font-size="13">'
        ),
        "<title>Which package imports which</title>",
        f'<rect width="{WIDTH}" height="{top:.0f}" rx="12" fill="#f7f9fb"/>',
    ]
    for label, upper, lower in bands:
        parts += [
            (
                f'<rect x="10" y="{upper - 8:.0f}" width="{WIDTH - 20}" '
                f'height="{lower - upper + 16:.0f}" rx="8" fill="#e7edf3"/>'
            ),
            (
                f'<text x="24" y="{(upper + lower) / 2 + 5:.0f}" font-size="16" font-weight="600" '
                f'fill="#1d3557">{escape(label)}</text>'
            ),
        ]
    for edge, count in sorted(imports.edges.items()):
        if edge[0] in boxes and edge[1] in boxes:
            parts.append(
                _curve(boxes[edge[0]], boxes[edge[1]], count, _look(edge, imports.circular))
            )
    for name, box in boxes.items():
        parts += _drawn_box(name, len(imports.modules[name]), box)
    return "\n".join([*parts, "</svg>", ""])


def _place(
    names: list[str], modules: Mapping[str, list[str]], top: float, boxes: dict[str, Box]
) -> float:
    """Put the boxes of a layer side by side, in the middle; where the band ends."""
    lines: list[list[tuple[str, float, float]]] = [[]]
    x = float(MARGIN)
    for name in names:
        columns = min(COLUMNS, max(4, len(modules[name])))
        width = max(columns * PITCH + 12.0, 8.0 * len(_shown(name, len(modules[name]))) + 12)
        height = float(HEAD + PITCH * -(-len(modules[name]) // columns) + 8)
        if x + width > WIDTH - 24:
            lines.append([])
            x = float(MARGIN)
        lines[-1].append((name, width, height))
        x += width + GAP
    y = top
    for line in lines:
        used = sum(width + GAP for _, width, _ in line) - GAP
        x = float((MARGIN + WIDTH - used) // 2)
        for name, width, height in line:
            boxes[name] = Box(x, y, width, height)
            x += width + GAP
        y += max(height for _, _, height in line) + GAP
    return y - GAP


def _shown(name: str, count: int) -> str:
    return f"{name} {count}"


def _drawn_box(name: str, count: int, box: Box) -> list[str]:
    columns = min(COLUMNS, max(4, count))
    parts = [
        (
            f'<rect x="{box.x:.0f}" y="{box.y:.0f}" width="{box.width:.0f}" '
            f'height="{box.height:.0f}" rx="6" fill="#fff" stroke="#3d5a80"/>'
        ),
        (
            f'<text x="{box.x + 6:.0f}" y="{box.y + 15:.0f}" fill="#1d3557">'
            f"{escape(_shown(name, count))}</text>"
        ),
    ]
    for number in range(count):
        x = box.x + 6 + number % columns * PITCH
        y = box.y + HEAD + number // columns * PITCH
        parts.append(
            f'<rect x="{x:.0f}" y="{y:.0f}" width="{SQUARE}" height="{SQUARE}" fill="#7ba6c9"/>'
        )
    return parts


def _look(edge: tuple[str, str], circular: set[tuple[str, str]]) -> tuple[str, float]:
    """Colour and opacity."""
    if edge in circular or _is_sideways(*edge):
        return "#c8102e", 0.8
    if edge[0].split("/")[0] == edge[1].split("/")[0]:
        return "#b36b00", 0.5
    return "#3d5a80", 0.2


def _curve(begin: Box, end: Box, count: int, look: tuple[str, float]) -> str:
    down = end.y >= begin.y + begin.height
    x1, x2 = begin.x + begin.width / 2, end.x + end.width / 2
    y1 = begin.y + begin.height if down else begin.y
    colour, opacity = look
    thick = min(5.0, 0.8 + count / 8)
    bend = max(24.0, (end.y - y1) / 2) if down else -18.0 - abs(x2 - x1) / 40
    path = f"M{x1:.0f} {y1:.0f} C{x1:.0f} {y1 + bend:.0f} {x2:.0f} "
    path += f"{end.y - bend if down else end.y + bend:.0f} "
    return (
        f'<path d="{path}{x2:.0f} {end.y:.0f}" fill="none" stroke="{colour}" '
        f'stroke-width="{thick:.1f}" stroke-opacity="{opacity}"/>'
    )


def _write_page(numbers: Mapping[str, Mapping[str, int | str]]) -> None:
    lines = [
        BEGIN,
        "A band is a layer, a box a package, a square a module. An edge leads from the importing",
        "package to the imported one: blue to a lower layer, brown within a layer, red in a circle",
        "or between two daemons. A circle is a set of modules and packages in one folder that",
        "import each other. `make picture` draws the present state.",
        "",
        "Only `strongroom` is counted. The appliance's program and the benchmark's suites were",
        "in it before; they are their own distributions now, so most of the difference in",
        "lines was moved, not cut.",
        "",
        "| | before | after |",
        "|---|---:|---:|",
        *(
            f"| {title} | {numbers['before'][key]} | {numbers['after'][key]} |"
            for key, title in TITLES.items()
        ),
        "",
        "Before (release 0.1.0):",
        "",
        f"![Imports before: packages up to six levels deep]({IMAGES}/imports-before.svg)",
        "",
        "After:",
        "",
        f"![Imports after: rooms two levels deep]({IMAGES}/imports-after.svg)",
        "",
    ]
    text = PAGE.read_text("utf-8")
    head, _, rest = text.partition(BEGIN)
    PAGE.write_text(head + "\n".join(lines) + END + rest.partition(END)[2], "utf-8")


def main() -> int:
    """Measure, draw, and write the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", choices=("before", "after"))
    parser.add_argument("--source", type=Path, default=ENGINE / "src")
    arguments = parser.parse_args()
    imports = read_imports(arguments.source.resolve())
    numbers = json.loads(NUMBERS.read_text("utf-8")) if NUMBERS.exists() else {}
    numbers[arguments.name] = imports.numbers
    NUMBERS.write_text(json.dumps(numbers, indent=1, sort_keys=True) + "\n", "utf-8")
    picture = DOCUMENTS / "images" / f"imports-{arguments.name}.svg"
    picture.write_text(draw(imports), "utf-8")
    if all(numbers.get(name, {}).keys() == TITLES.keys() for name in ("before", "after")):
        _write_page(numbers)
    for key, title in TITLES.items():
        print(f"{title}: {imports.numbers[key]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
