"""The corpus of template cases, and the names that each case declares: all that it uses and all that it is given."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

Case = dict[str, Any]


def cases(*classes: str) -> list[Case]:
    path = Path(__file__).parent.parent / "corpora" / "templates.json"
    return [case for case in json.loads(path.read_text())["cases"] if case["cls"] in classes]


def declared(case: Case) -> set[str]:
    return {*re.findall(r"[^\W\d]\w*", case["template"]), *case["args"]}
