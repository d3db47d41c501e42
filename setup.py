"""The README as the index shows it: its links lead to the repository, once pyproject.toml names that.

Everything else is in pyproject.toml.
"""

import re
import tomllib
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).parent


def linked(readme: str, repository: str | None, version: str) -> str:
    """``readme`` with relative links made absolute: pages and pictures of the tag of ``version``."""
    if repository is None:
        return readme
    base = repository.rstrip("/")
    pictures = re.sub(r"(!\[[^]]*\]\()(?!https?:|#)", rf"\1{base}/raw/v{version}/", readme)
    return re.sub(r"\]\((?!https?:|#)", f"]({base}/blob/v{version}/", pictures)


if __name__ == "__main__":
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    setup(
        long_description=linked(
            (ROOT / "README.md").read_text(),
            settings["tool"]["tidegate"].get("repository"),
            settings["project"]["version"],
        ),
        long_description_content_type="text/markdown",
    )
