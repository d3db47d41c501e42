"""``python -m tidegate`` is the ``tidegate`` program."""

from tidegate.cli.main import main

main()
