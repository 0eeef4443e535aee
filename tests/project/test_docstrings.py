"""Public names say what they take and return, in numpydoc's sections."""

from __future__ import annotations

import ast
import inspect
import os
import re
from pathlib import Path

import pytest

import flagstone as fl
from flagstone._expression import functions

SECTION = re.compile(r"^Parameters\n-+\n(.*?)(?=^\w[\w ]*\n-{3,}|\Z)", re.MULTILINE | re.DOTALL)


def documented(text: str) -> set[str]:
    """Names of the section Parameters; "out, dtype" are two."""
    found = SECTION.search(text)
    heads = [line for line in (found[1] if found else "").splitlines() if line and not line[0].isspace()]
    return {name.strip().lstrip("*") for head in heads for name in head.split(" : ")[0].split(",")}


def public() -> list[tuple[str, object]]:
    """Functions, routines and methods; the element-wise functions have NumPy's arguments."""
    found: list[tuple[str, object]] = []
    for name in sorted(set(fl.__all__) - set(functions.__all__)):
        value = getattr(fl, name)
        if inspect.isclass(value):
            methods = {k: v for k, v in vars(value).items() if not k.startswith("_") and callable(v)}
            found += [(f"{name}.{k}", v) for k, v in methods.items() if not issubclass(value, Exception)]
        elif callable(value):
            found.append((name, value))
    return found


#: Of the library itself, though its classes are public: called by `Call`, and by `compute`.
INNER = {"Runtime.engine", "Reduced.combine"}


@pytest.mark.parametrize(("name", "value"), [pytest.param(*one, id=one[0]) for one in public()])
def test_says_what_it_takes_and_returns(name, value):
    text = inspect.getdoc(value)
    assert text, name
    signature = inspect.signature(value)
    if name not in INNER:
        assert documented(text) == set(signature.parameters) - {"self"}
    gives_nothing = signature.return_annotation in (None, "None")
    if "." not in name and signature.parameters and not gives_nothing:
        assert re.search(r"^(Returns|Yields)\n-+$", text, re.MULTILINE)


def test_signatures_show_values_that_can_be_read():
    shown = {name: str(inspect.signature(value)) for name, value in public() if callable(value)}
    assert "initial: 'Any' = <no value>" in shown["fold"]
    assert not [name for name, text in shown.items() if re.search(r"<\w+ object| at 0x", text)]


def offered(place: Path) -> list[tuple[str, ast.FunctionDef | ast.ClassDef]]:
    """Functions, classes and their methods that a module of a room lists in __all__."""
    tree = ast.parse(place.read_text())
    listed = {
        name.value
        for node in tree.body
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__"
        for name in getattr(node.value, "elts", [])
    }
    found: list[tuple[str, ast.FunctionDef | ast.ClassDef]] = []
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name in listed:
            inner = node.body if isinstance(node, ast.ClassDef) else []
            found.append((node.name, node))
            found += [(f"{node.name}.{one.name}", one) for one in inner if isinstance(one, ast.FunctionDef)]
    return found


def test_what_a_room_offers_to_others_says_what_it_does():
    """Ruff takes everything below a folder with an underscore for private and asks for nothing there."""
    found = {
        f"{folder}/{name}: {what}": node
        for folder, _, names in os.walk(Path(fl.__file__).parent, followlinks=True)
        for name in names
        if name.endswith(".py")
        for what, node in offered(Path(folder) / name)
        if not re.search(r"(^|\.)_", what)
        and not any("overload" in ast.unparse(one) for one in node.decorator_list)
    }
    assert len(found) > 300
    assert not [what for what, node in found.items() if not ast.get_docstring(node)]
