"""Every kind of source hands its state to a provider, also to one of the user's own; the log stays the position."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support import custom_providers, staging
from support.column_lake import ColumnLake, InProcessColumnEngine
from support.lake import Lake
from support.unit_lake import survey_lake
from tidegate import RunReport, StateSpec, metadata_provider, reset_units, reset_watermark
from tidegate.core.watermark_text import WatermarkSerializer
from tidegate.runs.loop import Loop

PASSWORD = "swordfish-20261117"


def own(folder: Path, name: str = "JsonFolder", **options: str) -> dict[str, Any]:
    """The settings of a provider of the user's own."""
    return {"state": {"provider": f"support.custom_providers:{name}", "options": {"folder": str(folder), **options}}}


def saved(folder: Path, dataflow: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / f"{dataflow.replace('/', '.')}.json").read_text())
    return found


def watermark(folder: Path, dataflow: str) -> Any:
    return WatermarkSerializer.deserialize(saved(folder, dataflow)["watermark"])


def error_of(report: RunReport) -> str:
    (source,) = report.sources
    assert source.error is not None
    return source.error


def run_with(lake: ColumnLake, provider: object) -> RunReport:
    """A run whose provider was made by Python code."""
    project = replace(lake.project, state=StateSpec(provider))
    return Loop(project, InProcessColumnEngine(), 1, lake.seen.append).once(project.pipelines)


# --- columns


def test_a_class_of_the_users_own_gets_the_copy_with_job_and_run(tmp_path: Path) -> None:
    lake = ColumnLake(tmp_path, settings=own(tmp_path))
    lake.arrive({"id": 1}, {"id": 2})
    assert lake.run().ok
    lake.arrive({"id": 3})
    assert lake.run().ok
    copy = saved(tmp_path, "orders/default")
    assert (copy["watermark"], copy["job_id"]) == ('{"id": 3}', "tidegate/orders/default")
    assert (tmp_path / "lake/orders/_tidegate/orders/default" / f"{copy['dataflow_run_id']}.json").exists()
    assert copy["dataflow_run_id"].startswith(f"{2:020d}-")


def test_anything_with_the_two_methods_is_a_provider(tmp_path: Path) -> None:
    custom_providers.TwoMethods.saved.clear()
    lake = ColumnLake(tmp_path, settings={"state": {"provider": "support.custom_providers:TwoMethods"}})
    lake.arrive({"id": 4})
    assert lake.run().ok
    assert custom_providers.TwoMethods.saved == {"orders/default": '{"id": 4}'}


def test_a_manager_of_the_users_own_says_what_is_kept(tmp_path: Path) -> None:
    lake, provider = ColumnLake(tmp_path), metadata_provider(str(tmp_path / "state"))
    for number in (1, 2):
        lake.arrive({"id": number})
        assert run_with(lake, custom_providers.Scaled(provider)).ok
    assert [each.watermark for each in provider.history("orders/default")] == ['{"id": 10}', '{"id": 20}']
    lake.assert_exactly_once()


def test_the_position_does_not_come_from_the_provider(tmp_path: Path) -> None:
    lake = ColumnLake(tmp_path, settings=own(tmp_path))
    lake.arrive({"id": 1}, {"id": 2})
    lake.run()
    path = tmp_path / "orders.default.json"
    path.unlink()
    lake.arrive({"id": 3})
    assert lake.run().sources[0].rows == 1
    assert watermark(tmp_path, "orders/default") == {"id": 3}
    path.write_text(json.dumps({"watermark": '{"id": 0}'}))
    lake.arrive({"id": 4})
    assert "the state provider has the watermark" in error_of(lake.run())
    path.unlink()
    assert lake.run().sources[0].rows == 1
    lake.assert_exactly_once()


@pytest.mark.parametrize(
    ("name", "password", "told"),
    [
        (
            "Broken",
            PASSWORD,
            r"Broken: get_watermark\('orders/default'\) failed: ValueError: login with \*\*\*",
        ),
        ("Broken", "a number", r"Broken: get_watermark\('orders/default'\) returned int.*return the saved text"),
        ("HalfOne", None, r"HalfOne\(folder\) failed: TypeError.*correct state.options"),
        ("Nobody", None, "Nobody cannot be loaded.*install the module"),
        ("PASSWORD", None, "cannot be loaded"),
    ],
)
def test_an_error_of_the_users_code_is_named(tmp_path: Path, name: str, password: str | None, told: str) -> None:
    given = {} if password is None else {"password": password}
    lake = ColumnLake(tmp_path, settings=own(tmp_path, name, **given))
    lake.arrive({"id": 1})
    error = error_of(lake.run())
    assert re.search(told, error), error
    assert PASSWORD not in error
    assert not (tmp_path / "lake/orders/_delta_log").exists()


def test_a_copy_that_could_not_be_saved_follows_with_the_next_start(tmp_path: Path) -> None:
    class Moody(custom_providers.JsonFolder):
        is_away = True

        def update_watermark(self, *given: Any, **by: Any) -> None:
            if self.is_away:
                raise ConnectionError("not now")
            super().update_watermark(*given, **by)

    lake, provider = ColumnLake(tmp_path), Moody(str(tmp_path))
    lake.arrive({"id": 1})
    assert run_with(lake, provider).ok
    told = [event.text for event in lake.seen if event.name == "notice"]  # type: ignore[attr-defined]
    assert any("Moody: update_watermark('orders/default') failed: ConnectionError: not now" in text for text in told)
    assert provider.get_watermark("orders/default") is None
    provider.is_away = False
    lake.arrive({"id": 2})
    assert run_with(lake, provider).ok
    assert watermark(tmp_path, "orders/default") == {"id": 2}
    lake.assert_exactly_once()


# --- files


def test_files_by_watermark_hand_over_the_last_finished_file_of_each_partition(tmp_path: Path) -> None:
    lake = Lake(tmp_path, settings=own(tmp_path))
    lake.arrive("date=2026-01-27/1.ndjson")
    lake.arrive("date=2026-01-28/1.ndjson")
    lake.arrive("date=2026-01-28/2.ndjson")
    assert lake.run().ok
    assert watermark(tmp_path, "events/default") == {
        "kind": "path",
        "watermark": "date=2026-01-28/2.ndjson",
        "partitions": ["date=2026-01-27/1.ndjson", "date=2026-01-28/2.ndjson"],
    }
    assert saved(tmp_path, "events/default")["job_id"] == "tidegate/events/default"
    (tmp_path / "events.default.json").write_text(json.dumps({"watermark": '{"kind": "path", "watermark": "z"}'}))
    lake.arrive("date=2026-01-28/3.ndjson")
    assert "the state provider has the watermark" in error_of(lake.run())
    (tmp_path / "events.default.json").unlink()
    assert lake.run().sources[0].rows == 10
    lake.assert_exactly_once()


def test_moving_the_watermark_of_files_replaces_what_the_provider_has(tmp_path: Path) -> None:
    lake = Lake(tmp_path, settings=own(tmp_path))
    lake.arrive("1.ndjson")
    lake.run()
    (tmp_path / "events.default.json").write_text(json.dumps({"watermark": '{"kind": "path"}'}))
    reset_watermark(lake.config, "events")
    assert watermark(tmp_path, "events/default") == {"kind": "path", "watermark": None, "partitions": []}


def test_files_by_a_set_hand_over_a_summary_whose_size_does_not_grow(tmp_path: Path) -> None:
    lake = Lake(tmp_path, {"use_watermark": False}, settings=own(tmp_path))
    sizes = []
    for number in range(2):
        for each in range(40):
            lake.arrive(f"{number}{each:03d}.ndjson", records=1)
        assert lake.run().ok
        sizes.append(len(saved(tmp_path, "events/default")["watermark"]))
    copy = watermark(tmp_path, "events/default")
    assert (copy["kind"], copy["files"], sizes[0]) == ("path-set", 80, sizes[1])
    document = max((tmp_path / "lake/events/_tidegate/events/default").glob("*.json"))
    (debt,) = (each for each in json.loads(document.read_bytes())["debts"] if each["kind"] == "provider")
    assert len(json.dumps(debt)) < 250


def test_a_committer_hands_over_what_it_committed(tmp_path: Path) -> None:
    lake = Lake(tmp_path, pipeline_settings={"delivery": "staged"}, settings=own(tmp_path))
    staging.staged(lake, "1.ndjson", "2.ndjson")
    assert not (tmp_path / "events.default.json").exists()
    staging.commit(lake)
    assert watermark(tmp_path, "events/default")["watermark"] == "2.ndjson"
    staging.staged(lake, "3.ndjson")
    staging.commit(lake)
    assert watermark(tmp_path, "events/default")["watermark"] == "3.ndjson"
    lake.assert_exactly_once()


# --- work units


def test_work_units_hand_over_their_coverage_with_equal_units_together(tmp_path: Path) -> None:
    with survey_lake(tmp_path, settings=own(tmp_path)) as lake:
        lake.arrive("a", "01-05", "02-07")
        lake.arrive("b", "01-06")
        lake.broken = {"c@2020-02-01"}
        lake.run("03-05")
        copy = watermark(tmp_path, "responses/default")
        assert copy == {
            "kind": "unit",
            "zone": "UTC",
            "coverage": [
                {
                    "units": ["c"],
                    "read": [
                        ["2020-01-01T00:00:00Z", "2020-02-01T00:00:00Z"],
                        ["2020-03-01T00:00:00Z", "2020-03-05T00:00:00Z"],
                    ],
                },
                {"units": ["a", "b"], "read": [["2020-01-01T00:00:00Z", "2020-03-05T00:00:00Z"]]},
            ],
        }
        assert saved(tmp_path, "responses/default")["job_id"] == "tidegate/responses/default"
        lake.broken = set()
        (tmp_path / "responses.default.json").write_text(json.dumps({"watermark": '{"kind": "unit"}'}))
        assert "the state provider has the watermark" in error_of(lake.run("03-06"))
        reset_units(lake.config, "responses", names=["b"])
        lake.ran("03-06")
        assert [each["units"] for each in watermark(tmp_path, "responses/default")["coverage"]] == [["a", "b", "c"]]
        lake.assert_exactly_once()


def test_a_folder_gets_the_copies_of_work_units_too(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with survey_lake(tmp_path, settings={"state": {"provider": "file", "url": str(state)}}) as lake:
        lake.arrive("a", "01-05")
        lake.run("03-05")
    text = metadata_provider(str(state)).get_watermark("responses/default")
    assert text is not None
    assert json.loads(text)["kind"] == "unit"
