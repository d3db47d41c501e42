"""The configuration: YAML in, checked :class:`~tidegate.specs.project.ProjectSpec` out, and every problem at once.

The walk: text → tree with line numbers (``document``), short forms and old names spelled out (``normal_form``), then
the sections, from ``project`` down. A key is declared at the attribute of its spec; the module of a section has what a
declaration cannot say: checks of values, blocks whose shape differs from the spec's, and what keys mean together.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from tidegate.config.document import Problem, nearest, parse, sentence
from tidegate.config.keys import describe_unknown, editor_schema
from tidegate.config.models import BlockReader
from tidegate.config.normal_form import normal_form, set_types
from tidegate.config.project import ProjectModel, project_problems, take_notes
from tidegate.config.secrets import find_interpolated, find_secrets, with_variables
from tidegate.config.work_units import MS_KEYS
from tidegate.errors import ConfigError
from tidegate.specs.foreign import Foreign
from tidegate.specs.masking import Mask, remember
from tidegate.specs.project import ProjectSpec
from tidegate.storage.options import absolute_uri

__all__ = ["json_schema", "load", "show"]

MAX_BYTES = 4_000_000
IN_MEMORY = "<text>"


def load(
    config: str | os.PathLike[str],
    *,
    env: Mapping[str, str],
    pipelines: Sequence[str] = (),
    base: Path | None = None,
    foreign: Foreign | None = None,
) -> ProjectSpec:
    """The specs of a configuration file, or of YAML text (a ``str`` with a line break in it).

    ``pipelines`` keeps only those named; the whole file is checked all the same. Relative paths start at the
    file's directory, for text at ``base`` (the working directory). Keys of other systems that ``foreign`` names are
    left out, with a notice each. Raises :class:`ConfigError` with all that is wrong.
    """
    foreign = foreign or Foreign()
    if isinstance(config, str) and "\n" in config:
        found = _load(config, IN_MEMORY, "default", base or Path.cwd(), env, foreign)
    else:
        path = Path(config)
        found = _load(_read(path), str(path), path.stem, base or path.absolute().parent, env, foreign)
    return _select(found, pipelines) if pipelines else found


def show(project: ProjectSpec) -> str:
    """The canonical YAML of ``project``: every default, and no secret.

    What came from an environment variable is that variable again; other secrets are masked. In the same environment it
    loads to the same specs, except for the masked secrets.
    """
    return _dump(with_variables(ProjectModel.show(project), project))


def json_schema(foreign: Foreign | None = None) -> dict[str, Any]:
    """The JSON Schema of a configuration file, for editors."""
    return editor_schema((foreign or Foreign()).keys)


def _dump(data: dict[str, Any]) -> str:
    """``data`` as YAML: by libyaml, which is much faster than PyYAML, unless it escapes what people can read."""
    options: dict[str, Any] = {"sort_keys": False, "allow_unicode": True, "width": 100}
    made: str = yaml.dump(data, Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper), **options)
    return yaml.safe_dump(data, **options) if "\\U" in made or "\\N" in made else made


def _read(path: Path) -> str:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise ConfigError((f"{path}: no such file; give the path of a YAML file",)) from None
    except OSError as exc:
        raise ConfigError((f"{path}: cannot be read: {exc.strerror}",)) from None
    if len(data) > MAX_BYTES:
        raise ConfigError((f"{path}: larger than {MAX_BYTES:,} bytes; this is no configuration",))
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        line = data[: exc.start].count(b"\n") + 1
        raise ConfigError((f"{path}:{line}: not UTF-8 text; save the file as UTF-8",)) from None


def _load(text: str, origin: str, stem: str, base: Path, env: Mapping[str, str], foreign: Foreign) -> ProjectSpec:
    def resolve(uri: str) -> str:
        return absolute_uri(uri, base)

    written, problems = parse(text, env)
    if written is None:
        raise _error(origin, problems)
    # Before anything is said about the file, and whether it loads or not.
    mask = Mask.around(*find_interpolated(written)) | Mask.of(*find_secrets(written))
    remember(mask)
    root, more = normal_form(written, stem, MS_KEYS)
    kinds = list(set_types(root))
    notes = take_notes(root, [where for where, _ in kinds], foreign.keys)
    problems += [*more, *(each for _, each in kinds), *notes.problems]
    problems += project_problems(root, resolve, notes.covers)
    reader = BlockReader(root, describe_unknown)
    model = reader.read(ProjectModel, root)
    problems += [problem for loc, problem in reader.problems if not notes.covers(loc)]
    if problems or reader.problems:
        raise mask.error(_error(origin, problems))
    assert isinstance(model, ProjectModel)
    project = model.project(origin, resolve, tuple(notes.notices))
    return replace(project, interpolated=tuple(find_interpolated(root)), foreign=foreign)


def _error(origin: str, problems: list[Problem]) -> ConfigError:
    ordered = dict.fromkeys(problem.at(origin) for problem in sorted(problems))
    return ConfigError(tuple(ordered) or (f"{origin}: cannot be used",))


def _select(project: ProjectSpec, names: Sequence[str]) -> ProjectSpec:
    known = [pipeline.name for pipeline in project.pipelines]
    wrong = [
        sentence(f"{project.origin}: no pipeline {name!r}", f"allowed: {', '.join(known)}", nearest(name, known))
        for name in names
        if name not in known
    ]
    if wrong:
        raise ConfigError(tuple(wrong))
    return replace(project, pipelines=tuple(each for each in project.pipelines if each.name in names))
