"""A disk that is full, failing or read-only: typed errors, nothing half written, earlier data intact, and on we go."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Dose
from tests.crash.shim import Fault, Faults, build_shim, under_shim


def fail_calls(tmp_path: Path, fault: Fault, count: int, seed: int, mutant: str = "") -> list[str]:
    folder, page = tmp_path / "live", Faults(tmp_path / "page").path
    command = ["-m", "tests.crash.faulty", str(folder), str(page), fault.name, str(count), str(seed), mutant]
    with under_shim(build_shim(tmp_path), folder, *command, faults=page) as child:
        out, errors = child.communicate(timeout=3000)
    assert child.returncode == 0, errors
    *problems, last = out.splitlines()
    calls, failures = map(int, last.split())
    assert calls > 20, "the shim saw too few calls"
    assert failures >= min(count, calls) * 0.9, "too few calls failed"
    return problems


@pytest.mark.parametrize("fault", [fault for fault in Fault if fault], ids=lambda fault: fault.name.lower())
@pytest.mark.torture(short=8, full=10_000)  # 10,000 is more than there are: every call fails once
def test_the_nth_call_fails_and_nothing_that_returned_is_lost(tmp_path: Path, dose: Dose, fault: Fault) -> None:
    dose.failures += fail_calls(tmp_path, fault, dose.count, dose.seed)
