"""The position of every source, kept in the table's own log: OPEN, COMMIT, RESOLVE.

Read in this order: ``identity`` and ``files`` (the values), ``documents`` and ``marks`` (what is written),
``table`` (the port), ``opening``, ``committing``, ``resolving`` (the protocol), ``store`` (what runs use).
Then ``chain``, ``blocks``, ``ledger`` and ``compacting``: what all commits brought, and where that is kept.
"""
