"""The places of the commit protocol where a test can stop, kill or fail a process."""

from __future__ import annotations

FAILPOINTS: tuple[str, ...] = (
    "state.document.before",
    "state.document.after",
    "state.columns.before",
    "state.columns.after",
    "state.commit.before",
    "state.commit.after",
    "state.resolve.before",
    "state.done.before",
    "state.won.before",
    "state.won.after",
    "state.debt.before",
    "state.mirror.before",
    "state.mirror.after",
    "state.checkpoint.before",
    "state.block.before",
    "state.block.after",
    "state.gathered.before",
    "state.gathered.after",
    "state.cold_start.before",
    "state.cold_start.after",
)
"""Every failpoint of ``tidegate.state``, in the order of a commit.

``state.document.*``    around the PUT of the document; nothing is visible yet
``state.columns.*``     around adding columns to the table; the data is not visible yet
``state.commit.before`` the commit is about to be sent
``state.commit.after``  the commit is durable and nobody has noticed; ``raise`` here is a lost response
``state.resolve.before`` the log is about to be read for our attempt
``state.done.before``   our attempt was found in the log, no debt is paid
``state.won.*``         around the note that names the winner
``state.debt.before``   before each further debt of the commit
``state.mirror.*``      around the mirror
``state.checkpoint.before`` before a Delta checkpoint
``state.block.*``       around the put-if-absent of a block of the ledger
``state.gathered.before`` the block is there, none of the documents that it holds is removed
``state.gathered.after`` a few more of them are removed
``state.cold_start.*``  around the put-if-absent of ``cold_start.json``
"""
