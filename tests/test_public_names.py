"""The public names are a list, and this test reads the list."""

from __future__ import annotations

import ast
import pkgutil
import subprocess
import sys

import pytest

import sapwood
from sapwood import errors


def test_every_public_name_is_listed_and_every_listed_name_is_there() -> None:
    modules = {module.name for module in pkgutil.iter_modules(sapwood.__path__)}
    public = {name for name in vars(sapwood) if not name.startswith("_")} | {"__version__"}
    assert set(sapwood.__all__) == public - (modules - set(sapwood.__all__))
    assert list(sapwood.__all__) == sorted(sapwood.__all__)


def test_every_error_is_public_and_drawn_in_the_tree() -> None:
    drawn = {word for word in errors.__doc__.split() if word.isidentifier()} if errors.__doc__ else set()
    for name, value in vars(errors).items():
        if isinstance(value, type) and issubclass(value, errors.SapwoodError):
            assert name in sapwood.__all__, f"{name} is not public"
            assert name in drawn, f"{name} is missing from the drawing in errors.py"


HEAVY = ("apsw", "dbos", "jinja2", "rich", "sqlalchemy", "yaml", "asyncio", "pyfastcdc", "splintr", "click")


@pytest.mark.parametrize(
    ("code", "allowed"),
    [
        ("import sapwood", set()),
        ("from sapwood.cli.main import cli; cli(['--help'], standalone_mode=False)", {"click"}),
    ],
    ids=["import sapwood", "sapwood --help"],
)
def test_what_must_be_quick_loads_nothing_heavy(code: str, allowed: set[str]) -> None:
    tell = f"import sys; print([name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", f"{code}\n{tell}"], capture_output=True, text=True, check=True)
    assert set(ast.literal_eval(done.stdout.splitlines()[-1])) <= allowed
