"""Prints pages: as aligned lines for files and pipes, and as HTML for notebooks, web pages and files.

The HTML consists of semantic elements (``h3``, ``dl``, ``table``, ``p``, ``section``) whose classes name the meaning of
a text. Every text is escaped. :data:`STYLESHEET` gives the classes colours that are readable on light and dark pages; a
document has a stylesheet of its own, and neither scripts nor anything from elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from html import escape
from typing import assert_never

from tidegate.reports.page import Bar, Cell, Column, Facts, Gap, Heading, Line, Page, Panel, Style, Table
from tidegate.reports.wording import visible

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
.tidegate section { border-left: 0.25em solid #8888; padding-left: 0.8em; margin: 1em 0 }
.tidegate section.bad, .tidegate section.warn { color: inherit; font-weight: inherit }
.tidegate section.bad { border-color: #d73027 }
.tidegate section.warn { border-color: #c77700 }
.tidegate .chart { width: 9em; height: 1.5em; vertical-align: middle }
.tidegate .chart rect { fill: #4c8bb5 }
.tidegate .chart .bad { fill: #d73027 }
.tidegate .chart .dim { fill: #8888 }
""".strip()

_DOCUMENT_STYLESHEET = """
:root { color-scheme: light dark; --ink: #1c2430; --pale: #5c6776; --line: #dde2e8; --paper: #fff; --card: #f6f8fa;
  --good: #15703c; --warn: #8f5200; --bad: #b3261e; --bar: #5b8db0; --none: #c9d1d9 }
@media screen and (prefers-color-scheme: dark) { :root { --ink: #dfe5ec; --pale: #9aa6b4; --line: #303843;
  --paper: #12171e; --card: #1a2129; --good: #5fcf8a; --warn: #f0b14a; --bad: #ff8a80; --bar: #6fa8cf;
  --none: #3a4552 } }
* { box-sizing: border-box }
body { margin: 0; background: var(--paper); color: var(--ink); font: 15px/1.5 system-ui, sans-serif }
main { max-width: 68rem; margin: 0 auto; padding: 1.5rem 1.25rem 4rem; overflow-wrap: anywhere }
h1 { font-size: 1.35rem; margin: 0 0 .25rem } h2 { font-size: 1.1rem; margin: 2.25rem 0 .75rem }
h3 { font-size: 1rem; margin: 1.75rem 0 .5rem } p { margin: .35rem 0 }
dl { display: grid; grid-template-columns: 11rem minmax(0, 1fr); gap: .3rem 1rem; margin: .5rem 0 } dd { margin: 0 }
dt, th, .label, .footnote, .dim { color: var(--pale); font-weight: normal }
.footnote { font-size: .875rem } .strong { font-weight: 600 } .lead { font-size: 1.05rem }
.good { color: var(--good) } .warn { color: var(--warn) } .bad { color: var(--bad); font-weight: 600 }
table { border-collapse: collapse; width: 100% }
th, td { padding: .45rem .9rem .45rem 0; text-align: left; vertical-align: top; border-bottom: 1px solid var(--line) }
th { font-size: .875rem; white-space: nowrap } th:last-child, td:last-child { padding-right: 0 }
.right { text-align: right } .right, time, dd { font-variant-numeric: tabular-nums } td.right { white-space: nowrap }
td.good, td.warn, td.bad, td.dim { white-space: nowrap }
code { font: .9rem/1.5 ui-monospace, monospace; background: var(--card); border: 1px solid var(--line);
  border-radius: .25rem; padding: .1rem .4rem; box-decoration-break: clone; -webkit-box-decoration-break: clone }
section { background: var(--card); border: 1px solid var(--line); border-left: .3rem solid var(--pale);
  border-radius: .3rem; padding: .75rem 1rem; margin: .75rem 0; break-inside: avoid }
section h3 { margin: 0 0 .5rem } section code { background: var(--paper) }
section.bad, section.warn { color: inherit; font-weight: inherit }
section.bad { border-left-color: var(--bad) } section.bad h3 { color: var(--bad) }
section.warn { border-left-color: var(--warn) } section.warn h3 { color: var(--warn) }
.chart { width: 8.5rem; height: 1.5rem; vertical-align: middle } .chart rect { fill: var(--bar) }
.chart .bad { fill: var(--bad) } .chart .dim { fill: var(--none) }
dd .chart { display: block; width: 100%; max-width: 22rem; height: 3rem; margin: .15rem 0 }
@media (max-width: 45rem) { body { font-size: 16px } main { padding: 1rem 1rem 3rem } .spare { display: none }
  dl { grid-template-columns: minmax(0, 1fr); gap: 0 } dt { font-size: .875rem; margin-top: .5rem }
  table { font-size: .9rem } th, td { padding-right: .6rem } .chart { width: 6rem } }
@media print { main { max-width: none; padding: 0 } }
""".strip()

_NOTHING_FROM_ELSEWHERE = "default-src 'none'; style-src 'unsafe-inline'"


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
            case Panel():
                yield from to_lines(block.blocks)
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


def to_document(page: Page, title: str) -> str:
    """Return the page as a whole HTML file that needs nothing else: readable on a phone, in the dark and on paper."""
    head = [
        '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{_NOTHING_FROM_ELSEWHERE}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="color-scheme" content="light dark">',
        '<meta name="referrer" content="no-referrer">',
        f"<title>{escape(visible(title))}</title>",
        f"<style>\n{_DOCUMENT_STYLESHEET}\n</style>",
    ]
    body = ["<body>", "<main>", *_html(page), "</main>", "</body>"]
    return "\n".join(['<!doctype html>\n<html lang="en">\n<head>', *head, "</head>", *body, "</html>", ""])


def _html(page: Page) -> Iterator[str]:
    for block in page:
        match block:
            case Heading():
                # File names and errors come from outside: unescaped, they could run scripts in a notebook.
                yield f"<h{block.level}>{escape(block.text)}</h{block.level}>"
            case Facts():
                yield "<dl>"
                for label, fact in block.pairs:
                    yield f"<dt>{escape(label)}</dt><dd{_classes(fact)}>{_content(fact)}</dd>"
                yield "</dl>"
            case Table():
                yield from _html_table(block)
            case Line():
                label = f'<span class="label">{escape(block.label)}:</span> ' if block.label else ""
                yield f"<p{_classes(block.text)}>{label}{_content(block.text)}</p>"
            case Panel():
                yield f"<section{_classes(Cell('', block.style))}>"
                yield from _html(block.blocks)
                yield "</section>"
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
            f"<td{_classes(each, column)}>{_content(each)}</td>"
            for each, column in zip(row, table.columns, strict=True)
        )
        yield f"<tr>{''.join(cells)}</tr>"
    yield "</tbody>"
    yield "</table>"
    if table.footnote:
        yield f'<p class="footnote">{escape(table.footnote)}</p>'


def _content(cell: Cell) -> str:
    if cell.bars:
        caption = escape(cell.text[len(cell.bars) :].strip())
        return _draw_chart(cell.bars) + (f" <span>{caption}</span>" if caption else "")
    text = escape(cell.text)
    if cell.at is not None:
        return f'<time datetime="{_iso(cell.at)}">{text}</time>'
    return f"<code>{text}</code>" if cell.style is Style.CODE else text


def _iso(time: datetime) -> str:
    return time.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


_WIDTH, _STEP, _HIGH = 8, 10, 32
"""The width of a bar, that with the space beside it, and the height of a chart, in units of its own."""


def _draw_chart(bars: tuple[Bar, ...]) -> str:
    drawn = "".join(_draw_bar(number, bar) for number, bar in enumerate(bars))
    told = "; ".join(bar.label for bar in bars)
    box = f"0 0 {len(bars) * _STEP - _STEP + _WIDTH} {_HIGH}"
    return (
        f'<svg class="chart" viewBox="{box}" preserveAspectRatio="none" role="img" aria-label="{escape(told)}">'
        f"{drawn}</svg>"
    )


def _draw_bar(number: int, bar: Bar) -> str:
    # Days without anything keep a line at the bottom, so that the others have a place in time.
    height = 0 if bar.height is None else max(4 if bar.style is Style.BAD else 1, round(bar.height * _HIGH))
    empty = " dim" if not bar.height and bar.style is not Style.BAD else ""
    name = f"{'' if bar.style is Style.NORMAL else bar.style}{empty}".strip()
    kind = f' class="{name}"' if name else ""
    place = f'x="{number * _STEP}" y="{_HIGH - height}" width="{_WIDTH}" height="{height}"'
    return f"<rect{kind} {place}><title>{escape(bar.label)}</title></rect>"


def _classes(cell: Cell | None, column: Column | None = None) -> str:
    style = "" if cell is None or cell.style in (Style.NORMAL, Style.CODE) else str(cell.style)
    marks = (style, "right" if column and column.right else "", "spare" if column and column.spare else "")
    names = " ".join(filter(None, marks))
    return f' class="{names}"' if names else ""
