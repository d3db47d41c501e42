"""Searches what was written for secrets of a configuration, so that a person knows which ones to rotate.

Looks at what Tidegate writes below the tables (state, ledger, log entries, staged files, dead letters), at the YAML
files beside the configuration, and at the kept logs of Spark. Changes nothing: a file with a secret in it may be the
state of a source, and whoever could read it has read it already.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.commands.project import Config, load
from tidegate.errors import TidegateError
from tidegate.reports.checks import Check
from tidegate.reports.wording import count
from tidegate.spark.jars import cache_folder
from tidegate.specs.credentials import SHORTEST
from tidegate.specs.locations import Location
from tidegate.specs.masking import GUESSABLE, Mask
from tidegate.specs.project import ProjectSpec, ProviderKind
from tidegate.storage.stores import open_store

WRITTEN_BY_US = ("_tidegate", "_delta_log", "_staging")
ROTATE = (
    "replace the secret where it is issued; then remove logs and YAML files that hold the old one, and leave state as "
    "it is"
)


def search_secrets(config: Config) -> tuple[Check, ...]:
    """Search the state, the YAML and the logs of a project for its secrets; one check per place.

    A check that fails names the files. Secrets that are short, ordinary words, or part of a name that is shown cannot
    be told from other text and are not searched for; the first check counts them.
    """
    project = load(config)
    mask = _select_secrets(project)
    left = len(Mask.around(project).secrets) - len(mask.secrets)
    skipped = f"; {count(left, 'value')} too short or ordinary to be told from other text" if left else ""
    checks = [Check("secrets", "ok", f"{count(len(mask.secrets), 'form')} of secrets searched for{skipped}")]
    if not mask.secrets:
        return tuple(checks)
    for name, location in _tables(project):
        checks.append(_check(f"table of {name}", location, mask, WRITTEN_BY_US))
        letters = project.pipeline(name).dead_letters
        checks.append(_check(f"dead letters of {name}", letters, mask, ("",)))
    if project.state.provider is ProviderKind.FILE and project.state.url is not None:
        copies = Location(project.state.url.value, project.state.options)
        checks.append(_check("copies of the state", copies, mask, ("",)))
    checks.append(_check_yaml_files(project, mask))
    checks.append(_check_logs(mask))
    return Mask.around(project).deep(tuple(checks))


def _select_secrets(project: ProjectSpec) -> Mask:
    """The secrets that can be told from other text."""
    known = Mask.around(project)
    # A password such as "test" is in every log; finding it everywhere says nothing.
    telling = (each for each in known.secrets if len(each) >= SHORTEST and each.lower() not in GUESSABLE)
    return Mask(frozenset(each for each in telling if not any(each in name for name in known.names)))


def _tables(project: ProjectSpec) -> Iterator[tuple[str, Location]]:
    seen = set()
    for pipeline in project.pipelines:
        if pipeline.sink.table.uri not in seen:
            seen.add(pipeline.sink.table.uri)
            yield pipeline.name, pipeline.sink.table


def _check(name: str, location: Location, mask: Mask, folders: tuple[str, ...]) -> Check:
    """One table: every file of ours below it."""
    looked, found = 0, []
    try:
        store = open_store(location)
        for folder in folders if store.exists() else ():
            for each in store.list(folder):
                looked += 1
                if mask.finds(each.path) or mask.finds(_read_text(store.get(each.path))):
                    found.append(each.path)
    except TidegateError as error:
        return Check(name, "fail", error.problem, error.remedy)
    return _report_findings(name, looked, found, location.uri)


def _report_findings(name: str, looked: int, found: list[str], where: str) -> Check:
    if not found:
        return Check(name, "ok", f"no secret in {count(looked, 'file')} below {where}")
    listed = ", ".join(found[:20]) + (f" and {len(found) - 20:,} more" if len(found) > 20 else "")
    return Check(
        name, "fail", f"{count(len(found), 'file')} of {looked:,} hold a secret: {listed} (below {where})", ROTATE
    )


def _check_yaml_files(project: ProjectSpec, mask: Mask) -> Check:
    """The YAML files in the folder of the configuration, itself included."""
    folder = Path(project.origin).absolute().parent
    files = sorted(path for path in folder.glob("*") if path.suffix in (".yml", ".yaml") and path.is_file())
    found = [path.name for path in files if mask.finds(_read_text(path.read_bytes()))]
    return _report_findings("configurations", len(files), found, str(folder))


def _check_logs(mask: Mask) -> Check:
    """What is kept of Spark's logs."""
    files = sorted(cache_folder().glob("*.log"))
    found = [path.name for path in files if mask.finds(_read_text(path.read_bytes()))]
    return _report_findings("kept logs", len(files), found, str(cache_folder()))


def _read_text(content: bytes) -> str:
    """A file as text; that of Parquet is its values, which are compressed in the file."""
    if content[:4] != b"PAR1":
        return content.decode("utf-8", "replace")
    try:
        table = pq.read_table(io.BytesIO(content))
    # A damaged file may still show the secret in its bytes.
    except (pa.ArrowException, OSError):
        return content.decode("latin-1")
    return "\n".join(str(value) for column in table.columns for value in column.to_pylist() if value is not None)
