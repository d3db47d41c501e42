"""A state carried forward by what later commits are known to have read.

Used when the state of a position is lost and the coverage of the commits since an earlier one is not. The rules are
those of ``advance``: a range up to the end of its file finishes it, above a gap it stays an island, and the
watermark moves only over what was listed. Nothing is finished that no commit covered.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from tidegate.specs import PathSource
from tidegate.watermarks.advance import advance
from tidegate.watermarks.outcomes import Covered
from tidegate.watermarks.path_state import PathState
from tidegate.watermarks.paths import SourceFile


def covered(
    source: PathSource,
    state: PathState,
    commits: Sequence[Sequence[Covered]],
    listed: Sequence[SourceFile],
    now: datetime,
) -> PathState:
    """The state after ``commits``, oldest first, each with the ranges that it made visible.

    ``listed`` is what lies above ``state`` now; it is taken for cut off, so that nothing is sealed or forgotten.
    ``StateError`` where a range does not begin where the progress before it ends: a commit in between is missing.
    """
    for ranges in commits:
        state = advance(source, state, listed, ranges, now, complete=False).state
    return state
