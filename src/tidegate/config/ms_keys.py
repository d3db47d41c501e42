"""Names of properties files, in one table: a source may use them for the keys of today, with JSON text or YAML."""

from __future__ import annotations

import json
from collections.abc import Iterator

from tidegate.config.problems import Problem, problem
from tidegate.config.tree import Block, Items, Loc, Node, Scalar

MS_KEYS: dict[str, tuple[str, ...]] = {
    "ms.watermark": ("watermark",),
    "ms.secondary.input": ("secondary_input",),
    "ms.work.unit.partition": ("work_unit", "partition"),
    "ms.work.unit.partial.partition": ("work_unit", "partial_partition"),
    "ms.work.unit.min.units": ("work_unit", "min_units"),
    "ms.work.unit.min.records": ("work_unit", "min_records"),
    "ms.work.unit.parallelism.max": ("work_unit", "parallelism_max"),
    "ms.work.unit.pacing.seconds": ("work_unit", "pacing_seconds"),
    "ms.grace.period.days": ("grace_period_days",),
    "ms.abstinent.period.days": ("abstinent_period_days",),
    "ms.timezone": ("timezone",),
}
"""Old name → the path of the key below a source."""

STRUCTURED = (("watermark",), ("secondary_input",), ("work_unit", "partition"))
"""Keys that may be JSON text, under either name."""


def with_ms_keys(root: Block, where: Loc, source: Block) -> Iterator[Problem]:
    """Give ``source`` the keys of today, and trees for JSON text; it is changed."""
    for old, new in MS_KEYS.items():
        if old in source:
            yield from _rename(root, where, source, old, new)
    for path in STRUCTURED:
        yield from _read_json(root, where, source, path)


def _rename(root: Block, where: Loc, source: Block, old: str, new: tuple[str, ...]) -> Iterator[Problem]:
    *above, last = new
    holder = source
    for part in above:
        if source.get(part) is None:
            source.put(part, Block(source.lines[old]), source.lines[old], written="")
        elif isinstance(given := source[part], Block):
            source[part] = given.copy()
        holder = source.block(part)
    if holder.get(last) is not None:
        text = f"{old!r} stands for {'.'.join(new)!r}, which is given too; allowed: one of them"
        yield problem(root, (*where, old), text)
    else:
        holder.put(last, source[old], source.lines[old], written=old)
    source.drop(old)


def _read_json(root: Block, where: Loc, source: Block, path: tuple[str, ...]) -> Iterator[Problem]:
    *above, last = path
    holder = source.block(above[0]) if above else source
    written = holder.text(last)
    if written is None or not written.lstrip().startswith(("[", "{")):
        return
    try:
        found = json.loads(written)
    except (ValueError, RecursionError) as exc:
        at = f" at character {exc.pos + 1}" if isinstance(exc, json.JSONDecodeError) else ""
        yield problem(root, (*where, *path), f"is not JSON{at}; allowed: JSON text, or the same as YAML")
        holder[last] = Scalar(written, written.raw, written.line, broken=True)
        return
    holder[last] = _tree(found, written)


def _tree(value: object, written: Scalar) -> Node:
    """JSON as a tree, all of it in the line of the text."""
    match value:
        case dict():
            block = Block(written.line)
            for key, below in value.items():
                block.put(key, _tree(below, written), written.line)
            return block
        case list():
            items = Items(written.line)
            for below in value:
                items.add(_tree(below, written), written.line)
            return items
        case None:
            return None
        case str():
            return Scalar(value, value, written.line, quoted=True)
        case _:
            return Scalar(plain := json.dumps(value), plain, written.line)
