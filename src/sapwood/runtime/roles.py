"""The roles under which the facts of a run are claimed, each once for (node, attempt, delivery)."""

from __future__ import annotations

from typing import Final

OF_RUN: Final = ""  # the node of facts that belong to the whole run

REQUEST: Final = "request"
DISPATCH: Final = "dispatch"
DELIVERY: Final = "delivery"
RESULT: Final = "result"
REPORT: Final = "report"
PRUNED: Final = "pruned"
ANSWER: Final = "answer"
MESSAGE: Final = "message"

CANCEL: Final = "cancel"
PAUSE: Final = "pause"
RESUME: Final = "resume"
GOAL: Final = "goal"
