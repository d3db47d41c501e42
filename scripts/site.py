"""Builds the documentation as a site with search: ``python scripts/site.py [OUT]``, by default ``build/site``.

The pages link to each other as files of the repository, so the site has the repository's own layout: README.md is its
first page. A link that leads nowhere, or to a heading that does not exist, fails the build.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]
OTHERS = ("benchmarks", "examples")
STYLE = """\
.md-grid { max-width: 80rem; }
.md-typeset td:first-child code { white-space: nowrap; }
.md-nav__icon { flex-shrink: 0; }
"""
"""Wide enough for lines of code and tables; names of options stay whole, and so do the arrows beside long titles."""


def pages() -> list[Path]:
    """Every page of the site, relative to the repository."""
    found = [*ROOT.glob("*.md"), *(page for folder in ("docs", *OTHERS) for page in (ROOT / folder).rglob("*.md"))]
    return sorted(page.relative_to(ROOT) for page in found)


def linked() -> list[Path]:
    """What pages show or link to besides pages: pictures, examples, the licence."""
    found = [*(ROOT / "docs").rglob("*.svg"), *(ROOT / "examples").rglob("*.*"), ROOT / "LICENSE"]
    wanted = (".svg", ".yml", ".py", ".sql", "")
    return sorted(path.relative_to(ROOT) for path in found if path.is_file() and path.suffix in wanted)


def navigation() -> list[dict[str, object]]:
    """The pages in the order of the index, each section with its pages; commands below the command line."""
    sections: list[dict[str, object]] = [{"Tidegate": "README.md"}, {"All pages": "docs/index.md"}]
    for section in re.split(r"^## ", (ROOT / "docs" / "index.md").read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        title, _, body = section.partition("\n")
        found = re.findall(r"^\| \[([^\]]+)\]\(([^)#]+)\)", body, flags=re.MULTILINE)
        entries: list[dict[str, object]] = [{name: f"docs/{path}"} for name, path in found]
        if title == "Reference":
            commands = sorted((ROOT / "docs" / "reference" / "cli").glob("*.md"))
            entries.append({"Commands": [{page.stem: str(page.relative_to(ROOT))} for page in commands]})
        sections.append({title: entries or "docs/decisions/README.md"})
    others = ("benchmarks/README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")
    names = ("Benchmarks", "Contributing", "Security", "Changelog")
    return [*sections, {"Project": [{name: page} for name, page in zip(names, others, strict=True)]}]


def settings() -> dict[str, object]:
    """The configuration of the site."""
    return {
        "site_name": "Tidegate",
        "site_description": "Moves only what is new into Delta Lake tables, exactly once, on Apache Spark.",
        "docs_dir": "pages",
        "site_dir": "site",
        "use_directory_urls": False,
        "theme": {
            "name": "material",
            "font": False,
            "features": ["navigation.indexes", "navigation.top", "search.highlight", "content.code.copy", "toc.follow"],
            "palette": [
                {"scheme": "default", "toggle": {"icon": "material/weather-night", "name": "dark"}},
                {"scheme": "slate", "toggle": {"icon": "material/weather-sunny", "name": "light"}},
            ],
        },
        "plugins": ["search"],
        "markdown_extensions": ["tables", "fenced_code", "attr_list", {"toc": {"permalink": True}}],
        "validation": {
            "nav": {"omitted_files": "ignore"},
            "links": {"not_found": "warn", "anchors": "warn", "unrecognized_links": "warn"},
        },
        "extra_css": ["site.css"],
        "nav": navigation(),
    }


def build(out: Path) -> int:
    """Build the site; the exit code of the builder, which is not 0 where a link is broken."""
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder)
        for path in (*pages(), *linked()):
            target = project / "pages" / path
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / path, target)
        (project / "pages" / "site.css").write_text(STYLE, encoding="utf-8")
        config = project / "mkdocs.yml"
        config.write_text(yaml.safe_dump(settings(), sort_keys=False), encoding="utf-8")
        command = [sys.executable, "-m", "zensical", "build", "--strict", "--config-file", str(config)]
        code = subprocess.run(command, check=False).returncode
        if code == 0:
            shutil.rmtree(out, ignore_errors=True)
            shutil.copytree(project / "site", out)
        return code


if __name__ == "__main__":
    where = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "site"
    code = build(where)
    print(f"{len(pages())} pages in {where}" if code == 0 else "the site was not built")
    sys.exit(code)
