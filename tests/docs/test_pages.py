"""The pages hang together: every link leads somewhere, every page can be reached, and none tells what it must not."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path

from support.all_cases import for_all

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
FOLDERS = ("docs", "benchmarks", "examples", ".ci")
PAGES = sorted({*ROOT.glob("*.md"), *(page for folder in FOLDERS for page in (ROOT / folder).rglob("*.md"))})
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FORBIDDEN = (
    r"/root/",
    r"/tmp/",
    r"/Users/",
    r"/home/(?!me/)",
    r"\bTODO\b",
    r"\bFIXME\b",
)


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def prose(page: Path) -> str:
    """The text without code blocks and code spans."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"`[^`\n]*`", "", text)


def links(page: Path) -> list[str]:
    return [link for link in LINK.findall(prose(page)) if not re.match(r"[a-z]+:", link)]


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    titles = re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@for_all(PAGES, name)
def test_every_relative_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    for link in links(page):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{name(page)} links to {link}, which does not exist"
        if anchor:
            assert anchor in anchors(target), f"{name(page)} links to {link}, which has no such heading"


def test_every_page_is_reachable_from_the_index() -> None:
    reached, waiting = set[Path](), [DOCS / "index.md"]
    while waiting:
        page = waiting.pop()
        if page in reached:
            continue
        reached.add(page)
        targets = ((page.parent / link.partition("#")[0]).resolve() for link in links(page))
        waiting.extend(target for target in targets if target.suffix == ".md" and target.is_file())
    missing = [name(page) for page in DOCS.rglob("*.md") if page not in reached]
    assert missing == []


@for_all(PAGES, name)
def test_no_page_shows_paths_of_a_machine_or_unfinished_notes(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    found = [word for word in FORBIDDEN if re.search(word, text)]
    assert found == [], f"{name(page)} holds {found}"


@for_all(PAGES, name)
def test_every_page_begins_with_its_title_and_closes_its_code_blocks(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert re.match(r"# \S", text), f"{name(page)} has no title"
    assert len(re.findall(r"^\s*```", text, flags=re.MULTILINE)) % 2 == 0


def test_every_page_about_a_failure_is_in_the_table_and_says_what_to_do() -> None:
    folder = DOCS / "failures"
    table = (folder / "README.md").read_text(encoding="utf-8")
    for page in folder.glob("*.md"):
        if page.name in ("README.md", "common-issues.md"):
            continue
        assert f"({page.name})" in table
        headings = anchors(page)
        assert "what-you-see" in headings, name(page)
        assert "what-to-do" in headings, name(page)


def test_the_menu_of_the_site_has_every_page_of_the_index_and_every_command() -> None:
    spec = importlib.util.spec_from_file_location("site_script", ROOT / "scripts" / "site.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    shown = set(paths(module.navigation()))
    assert all((ROOT / path).is_file() for path in shown)
    wanted = {*(DOCS / "index.md").parent.glob("*.md"), *(DOCS / "reference" / "cli").glob("*.md")}
    wanted |= {(DOCS / link.partition("#")[0]).resolve() for link in links(DOCS / "index.md")}
    assert {str(page.relative_to(ROOT)) for page in wanted} <= shown


def paths(menu: object) -> Iterator[str]:
    """The pages of a menu, at any depth."""
    match menu:
        case str():
            yield menu
        case dict():
            yield from (path for below in menu.values() for path in paths(below))
        case list():
            yield from (path for below in menu for path in paths(below))
