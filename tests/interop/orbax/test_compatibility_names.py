"""The real packages have the names that docs/compatibility.md lists."""

import dataclasses
import importlib
import inspect
import pathlib
import tomllib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
SECTIONS = tomllib.loads((ROOT / "scripts/docs/compatibility.toml").read_text())["section"]
LISTED = [pytest.param(section, name, entry.get("members", []), id=f"{section['id']}.{name}")
          for section in SECTIONS
          for name, entry in [*section["names"].items(), *((name, {}) for name in section.get("absent", {}))]]


def parts_of(value):
    """The attributes, fields and arguments that a class or a function has."""
    names = set(dir(value))
    if dataclasses.is_dataclass(value):
        names |= {field.name for field in dataclasses.fields(value)}
    for one in getattr(value, "__mro__", [value]):
        names |= set(getattr(one, "__annotations__", {}))
        try:
            names |= set(inspect.signature(one).parameters)
        except (TypeError, ValueError):  # a class of C has none
            pass
    return names


def found(packages, name):
    """The value of a dotted name in one of the modules, whose last part may be a field or an argument."""
    for package in packages:
        try:
            value = importlib.import_module(package)
        except ImportError:
            continue
        first, *rest = name.split(".")
        for number, part in enumerate([first, *rest]):
            if hasattr(value, part):
                value = getattr(value, part)
            elif inspect.ismodule(value):
                try:
                    value = importlib.import_module(f"{value.__name__}.{part}")
                except ImportError:
                    break
            elif number == len(rest) and part in parts_of(value):
                return True, value
            else:
                break
        else:
            return True, value
    return False, None


@pytest.mark.parametrize("section, name, members", LISTED)
def test_the_real_package_has_it(section, name, members):
    there, value = found(section["package"], name)
    assert there, f"none of {section['package']} has {name}"
    parts = parts_of(value)
    owner = name.rpartition(".")[0]
    for member in members:
        beside = f"{owner}.{member}" if owner else member
        assert member in parts or found(section["package"], beside)[0], f"{name} has no {member}"
