"""A run holds the texts it is working on, not those it has worked on."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.conftest import ROOT, Dose

MOST_MB = 50


@pytest.mark.torture(short=12, full=100)
def test_nodes_that_hand_on_five_megabytes_each_add_little(dose: Dose) -> None:
    added = added_mb(str(dose.count))
    if added > MOST_MB:
        dose.failures.append(f"{dose.count} nodes added {added:.0f} MB")


@pytest.mark.mutant
def test_a_process_that_holds_what_it_recorded_is_caught() -> None:
    assert added_mb("12", "hold") > MOST_MB


def added_mb(*words: str) -> float:
    shown = subprocess.run(
        [sys.executable, "-m", "tests.runtime.memory_worker", *words], cwd=ROOT, check=True, capture_output=True
    )
    return float(shown.stdout)
