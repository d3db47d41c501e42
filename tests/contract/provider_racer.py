"""A process of its own that saves watermarks through one provider, beside others: it counts on, one by one.

``python provider_racer.py '{"settings": {…}, "steps": 5, "conditional": true}'``; says that it is ready, begins when
its input ends, and prints as JSON how often another process was first.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any


def main(given: dict[str, Any]) -> None:
    from support.providers import opened
    from tidegate.errors import CommitLost

    provider = opened(given["settings"])
    name, lost, done = str(os.getpid()), 0, 0
    provider.get_watermark("p/s")
    print("ready", flush=True)
    sys.stdin.read()
    while done < given["steps"]:
        if not given["conditional"]:
            provider.update_watermark("p/s", json.dumps({name: done}), job_id=name, dataflow_run_id=str(done))
            done += 1
            continue
        before = provider.get_watermark("p/s")
        count = 0 if before is None else json.loads(before)["count"]
        following = json.dumps({"count": count + 1})
        try:
            provider.compare_and_set("p/s", before, following, job_id=name, dataflow_run_id=str(done))
            done += 1
        except CommitLost:
            lost += 1
    print(json.dumps({"lost": lost, "name": name}))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
