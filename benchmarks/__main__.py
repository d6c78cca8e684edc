"""Run the benchmarks named on the command line, or all of them."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from pathlib import Path


def main() -> None:
    wanted = sys.argv[1:]
    for module in sorted(pkgutil.iter_modules([str(Path(__file__).parent)]), key=lambda found: found.name):
        name = module.name.removeprefix("bench_")
        if module.name.startswith("bench_") and (not wanted or name in wanted):
            print(f"== {name}", flush=True)
            importlib.import_module(f"benchmarks.{module.name}").main()


if __name__ == "__main__":
    main()
