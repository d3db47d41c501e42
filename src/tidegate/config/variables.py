"""``${VAR}``, ``${VAR:-default}`` and ``$$``, put into a value after the file was parsed, so that no value
can change the file's shape. What was put in is not looked at again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_FORM = re.compile(r"\$\$|\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}|(\$\{)(?:([a-z]+(?:\.[a-z]+)+)\})?")
OF_PROPERTIES = {
    "job.dir": "paths start at the directory of the file; write the path of the table",
    "preceding.table.name": "write secondary_input: [{pipeline: NAME, fields: [id]}], or the path of the table",
    "job.name": "write the name of the pipeline",
    "extract.table.name": "write the name of the table",
}
"""Variables of properties files, and what is written instead."""


def put_in(text: str, env: Mapping[str, str]) -> tuple[str, list[str]]:
    """``text`` with its variables replaced, and what is wrong with them.

    >>> put_in("s3://${BUCKET}/${DIR:-raw}/$$", {"BUCKET": "lake"})
    ('s3://lake/raw/$', [])
    """
    problems: list[str] = []

    def replacement(match: re.Match[str]) -> str:
        name, default, malformed, old = match.groups()
        if old is not None:
            instead = OF_PROPERTIES.get(old, "allowed: ${NAME}, a variable of the environment")
            problems.append(f"${{{old}}} is a variable of properties files; {instead}")
        elif malformed:
            problems.append("'${' starts no variable here; allowed: ${NAME}, ${NAME:-default}, and $${ for the text ${")
        elif name is None:
            return "$"
        elif default is not None:
            return env.get(name) or default
        elif name not in env:
            problems.append(f"the variable {name} is not set; set it, or write ${{{name}:-default}}")
        else:
            return env[name]
        return ""

    return _FORM.sub(replacement, text), problems
