"""The position of every source, kept in the table's own log: OPEN, COMMIT, RESOLVE.

The protocol has two chapters, each with its steps at the top: ``open`` and ``commit``. ``follow_ups`` come after a
commit, ``recovery`` is for what is left when OPEN stops, and runs use all of it through ``store``.

Values: ``change``, ``position`` (and notes beside the table). What is written: ``documents``, ``staging``. The table:
``table`` (the port), ``table_checks``, ``delta``, ``memory`` (its twin), ``log``, ``maintenance``, ``dead_letters``.
What all commits brought: ``ledger``, ``ledger_blocks``. Copies for other systems: ``providers``, ``sql_provider``,
``sqlalchemy_provider``.

A state is opaque here: what it means, and what else it refers to, its tracker in ``runs`` knows.
"""
