"""Which files a dataset's path means: one file, all in a folder, or those that a pattern matches.

The compiler looks into them for their columns, the runtime reads them. What stands in them is no business of this module.
"""

from __future__ import annotations

import glob
import os
import re
from pathlib import Path

SUFFIXES = (".jsonl", ".csv", ".parquet")
HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")


def data_files(path: str) -> list[str]:
    """The files, in order of their names: those with a suffix of `SUFFIXES` in a folder and its folders, those that a
    pattern (`*`, `?`, `[…]`) matches, or the path itself."""
    if os.path.isdir(path):
        inside = (os.path.join(folder, name) for folder, _, names in os.walk(path) for name in names)
        return sorted(file for file in inside if suffix_of(file) in SUFFIXES)
    if is_pattern(path) and not os.path.exists(path):
        found = glob.iglob(path, recursive=True)  # noqa: PTH207  (the pattern may be absolute)
        return sorted(file for file in found if os.path.isfile(file))
    return [path]


def is_pattern(path: str) -> bool:
    """Whether the path is a pattern of several."""
    return glob.has_magic(path)


def is_hub_id(text: str, absolute: str) -> bool:
    """Whether a text names a dataset of the hub, `owner/name`: it has the form of one, and its first part is no folder
    here, so that a misspelt file does not pass for one. `absolute` is the path that it would be."""
    local = suffix_of(text) in SUFFIXES or os.path.isdir(os.path.dirname(absolute)) or text.startswith(".")
    return HUB_ID.fullmatch(text) is not None and not local


def suffix_of(path: str) -> str:
    """The suffix in lower case, with its dot."""
    return Path(path).suffix.lower()
