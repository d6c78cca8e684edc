"""Run the benchmarks named on the command line, or all of them."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from pathlib import Path


def main() -> None:
    modules = [module.name for module in pkgutil.iter_modules([str(Path(__file__).parent)])]
    names = sorted(name.removeprefix("bench_") for name in modules if name.startswith("bench_"))
    wanted = sys.argv[1:] or names
    for name in wanted:
        if name not in names:
            sys.exit(f"no benchmark is called {name!r}; there are {', '.join(names)}")
    for name in wanted:
        print(f"== {name}", flush=True)
        importlib.import_module(f"benchmarks.bench_{name}").main()


if __name__ == "__main__":
    main()
