"""What a block of the file is as a model, and the blocks that sources of several kinds share."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, model_validator

from tidegate.config import values as v


class Model(BaseModel):
    """A block of the file; a key without a value counts as not given."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        arbitrary_types_allowed=True,
        hide_input_in_errors=True,
        defer_build=True,
    )
    step: ClassVar[str] = ""
    """What stands for the block's name in paths, where a mapping of names holds it."""

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        known = {info.alias or name for name, info in cls.model_fields.items()}
        return {key: value for key, value in data.items() if value is not None or key not in known}


class CsvModel(Model):
    """How CSV files are written."""

    delimiter: v.Character | None = Field(
        default=None, description="What stands between cells; unset: a comma, in .tsv files a tab."
    )
    quote: v.CharacterOrNone = Field(default='"', description="What stands around cells; none: cells are never quoted.")
    escape: v.Character | None = Field(
        default=None, description="What stands before a quote inside quotes; unset: such quotes are doubled."
    )
    header: v.Flag = Field(default=True, description="Whether the first record of each file names its columns.")
    columns: v.Texts = Field(
        default=(), description="The columns of files without a header, in order; unset: the declared ones."
    )
    null_values: v.Cells = Field(default=("",), description="Unquoted cells that are null.")
    skip_rows: v.CountOrNone = Field(default=0, description="Lines to pass over at the beginning of each file.")
    encoding: v.Encoding = Field(default="utf-8", description="How text is encoded.")
