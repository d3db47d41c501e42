"""What the configuration's tests share: loading text, and the problems of text that is wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tidegate.config import load
from tidegate.errors import ConfigError
from tidegate.migrate.foreign import FOREIGN
from tidegate.specs.project import ProjectSpec

Load = Callable[..., ProjectSpec]
Problems = Callable[..., tuple[str, ...]]


@pytest.fixture
def loaded(tmp_path: Path) -> Load:
    """Write text to ``pipelines.yml`` and load it."""

    def load_text(text: str, *, env: Mapping[str, str] | None = None, name: str = "pipelines.yml") -> ProjectSpec:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return load(path, env=env or {}, foreign=FOREIGN)

    return load_text


@pytest.fixture
def problems(tmp_path: Path) -> Problems:
    """The problems of text, without the directory in front; the text must have some."""

    def problems_of(text: str, *, env: Mapping[str, str] | None = None, name: str = "pipelines.yml") -> tuple[str, ...]:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        with pytest.raises(ConfigError) as caught:
            load(path, env=env or {}, foreign=FOREIGN)
        return tuple(line.replace(f"{tmp_path}/", "") for line in caught.value.problems)

    return problems_of
