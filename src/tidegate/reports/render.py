"""Prints pages: as aligned lines for files and pipes, and as HTML for notebooks and web pages.

The HTML is a fragment of semantic elements (``h3``, ``dl``, ``table``, ``p``) whose classes name the meaning of a text.
Every text is escaped. :data:`STYLESHEET` gives the classes colours that are readable on light and dark pages.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import assert_never

from tidegate.reports.page import Cell, Column, Facts, Gap, Heading, Line, Page, Style, Table

STYLESHEET = """
.tidegate table { border-collapse: collapse }
.tidegate th, .tidegate td { padding: 0.1em 0.8em; text-align: left; vertical-align: top }
.tidegate .right { text-align: right; font-variant-numeric: tabular-nums }
.tidegate dl { display: grid; grid-template-columns: max-content auto; gap: 0.1em 1em }
.tidegate dd { margin: 0 }
.tidegate dt, .tidegate th, .tidegate .label, .tidegate .footnote, .tidegate .dim { opacity: 0.65 }
.tidegate .strong { font-weight: bold }
.tidegate .good { color: #1a9850 }
.tidegate .warn { color: #c77700 }
.tidegate .bad { color: #d73027; font-weight: bold }
""".strip()


def to_lines(page: Page) -> Iterator[str]:
    """Yield the page as aligned lines, not wrapped."""
    for block in page:
        match block:
            case Heading():
                yield block.text
            case Facts():
                width = max((len(label) for label, _ in block.pairs), default=0)
                yield from (f"  {label:<{width}}  {value.text}".rstrip() for label, value in block.pairs)
            case Table():
                yield from _table_lines(block)
            case Line():
                label = f"{block.label}: " if block.label else ""
                yield f"  {label}{block.text.text}"
            case Gap():
                yield ""
            case _:
                assert_never(block)


def _table_lines(table: Table) -> Iterator[str]:
    texts = [[entry.text for entry in row] for row in table.rows]
    titles = [column.title for column in table.columns]
    widths = [max(len(row[index]) for row in [titles, *texts]) for index in range(len(titles))]
    for row in [titles, *texts]:
        cells = zip(row, widths, table.columns, strict=True)
        pieces = (text.rjust(width) if column.right else text.ljust(width) for text, width, column in cells)
        yield "  " + "  ".join(pieces).rstrip()
    if table.footnote:
        yield f"  {table.footnote}"


def to_html(page: Page) -> str:
    """Return the page as an HTML fragment: one ``div`` of the class ``tidegate``, without a stylesheet."""
    return "\n".join(['<div class="tidegate">', *_html(page), "</div>"])


def _html(page: Page) -> Iterator[str]:
    for block in page:
        match block:
            case Heading():
                # File names and errors come from outside: unescaped, they could run scripts in a notebook.
                yield f"<h3>{escape(block.text)}</h3>"
            case Facts():
                yield "<dl>"
                for label, fact in block.pairs:
                    yield f"<dt>{escape(label)}</dt><dd{_classes(fact)}>{escape(fact.text)}</dd>"
                yield "</dl>"
            case Table():
                yield from _html_table(block)
            case Line():
                label = f'<span class="label">{escape(block.label)}:</span> ' if block.label else ""
                yield f"<p{_classes(block.text)}>{label}{escape(block.text.text)}</p>"
            case Gap():
                pass  # the elements have margins of their own
            case _:
                assert_never(block)


def _html_table(table: Table) -> Iterator[str]:
    yield "<table>"
    titles = "".join(f"<th{_classes(None, column)}>{escape(column.title)}</th>" for column in table.columns)
    yield f"<thead><tr>{titles}</tr></thead>"
    yield "<tbody>"
    for row in table.rows:
        cells = (
            f"<td{_classes(cell, column)}>{escape(cell.text)}</td>"
            for cell, column in zip(row, table.columns, strict=True)
        )
        yield f"<tr>{''.join(cells)}</tr>"
    yield "</tbody>"
    yield "</table>"
    if table.footnote:
        yield f'<p class="footnote">{escape(table.footnote)}</p>'


def _classes(cell: Cell | None, column: Column | None = None) -> str:
    style = "" if cell is None or cell.style is Style.NORMAL else str(cell.style)
    names = " ".join(filter(None, (style, "right" if column and column.right else "")))
    return f' class="{names}"' if names else ""
