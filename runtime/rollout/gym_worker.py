"""The process in which `grader` has answers to Reasoning Gym's questions verified: a line `[answer, entry]` in, a score out.

A line with a task alone, `{"task": …, "size": …, "seed": …, "options": […]}`, loads it. It has no time limit: whoever asks kills it.
"""

from __future__ import annotations

import json
import os
import sys

from runtime.datasets.gym import generated, verified


def main() -> None:
    """Answer until stdin ends."""
    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what the library prints must not be taken for a reply
    print('"ready"', file=replies)
    for line in sys.stdin:
        asked = json.loads(line)
        if isinstance(asked, dict):
            generated(asked["task"], asked["size"], asked["seed"], tuple(asked["options"]))
            print('"loaded"', file=replies)
        else:
            print(json.dumps(verified(*asked)), file=replies)


if __name__ == "__main__":
    main()
