#!/usr/bin/env python3
"""Writes docs/reference/api.txt: every public name with its signature, of Python and of C++.

Python: the names in `__all__` of flagstone and of the files beside its __init__.py, as installed. C++: what
the headers declare that rooms call PUBLIC. One line each, sorted: a change of a face is a line of a diff.

    api.py           writes the file
    api.py --check   fails, with the difference, where the file says something else
"""

from __future__ import annotations

import difflib
import importlib
import inspect
import re
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import rooms

TOP = Path(__file__).resolve().parent.parent
LISTING = "docs/reference/api.txt"
ADVICE = (
    f"{LISTING} does not say what the faces hold. A change of a public name is a decision: write down why "
    "(docs/decisions), then run tools/api.py."
)


# --- Python -----------------------------------------------------------------------------------------------


def annotation_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return value.__qualname__ if isinstance(value, type) else str(value)


def default_text(value: Any) -> str:
    text = repr(value)
    return "..." if re.search(r"<|\bat 0x", text) else text


def signature_text(function: Any, bound: bool) -> str:
    """(a: int, *, b: str = 'x') -> float, the same in every version of Python; `bound`: without self."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return "(...)"
    words = []
    kinds = inspect.Parameter
    before = None
    parameters = list(signature.parameters.values())[1 if bound else 0 :]
    starred = any(parameter.kind is kinds.VAR_POSITIONAL for parameter in parameters)
    for parameter in parameters:
        if before is kinds.POSITIONAL_ONLY and parameter.kind is not before:
            words.append("/")
        if parameter.kind is kinds.KEYWORD_ONLY and before is not parameter.kind and not starred:
            words.append("*")
        before = parameter.kind
        word = {kinds.VAR_POSITIONAL: "*", kinds.VAR_KEYWORD: "**"}.get(parameter.kind, "") + parameter.name
        if parameter.annotation is not kinds.empty:
            word += f": {annotation_text(parameter.annotation)}"
        if parameter.default is not kinds.empty:
            spaced = " = " if parameter.annotation is not kinds.empty else "="
            word += spaced + default_text(parameter.default)
        words.append(word)
    if before is kinds.POSITIONAL_ONLY:
        words.append("/")
    ends = signature.return_annotation
    return f"({', '.join(words)})" + ("" if ends is signature.empty else f" -> {annotation_text(ends)}")


def ours(function: Any, package: Path) -> bool:
    """Whether somebody wrote it in the package: not dataclasses, nor a base class elsewhere."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return code is not None and Path(code.co_filename).is_relative_to(package)


def class_lines(name: str, kind: type, package: Path) -> Iterator[str]:
    public = set(sys.modules[package.name].__all__)
    shown = [b for b in kind.__bases__ if b.__name__ in public or b.__module__.split(".")[0] != package.name]
    bases = ", ".join(base.__name__ for base in shown if base is not object)
    yield f"class {name}({bases})" if bases else f"class {name}"
    if re.search(r"^\s*Parameters\s*$", kind.__doc__ or "", re.MULTILINE):
        yield f"{name}{signature_text(kind, False)}"  # a constructor is public where it is documented
    seen: set[str] = set()
    for owner in kind.__mro__:
        if owner.__module__.split(".")[0] != package.name:
            continue
        for field in inspect.get_annotations(owner):
            if not field.startswith("_") and field not in vars(owner).keys() | seen:
                seen.add(field)
                yield f"{name}.{field}"
        for member, value in vars(owner).items():
            if member in seen:
                continue
            plain = not member.startswith("_")
            inner = getattr(value, "__func__", value)  # of classmethod and staticmethod
            if callable(inner):
                inner = inspect.unwrap(inner)  # of methods with plans
            if isinstance(inner, types.FunctionType):
                operator = member.startswith("__") and member.endswith("__") and member not in HIDDEN
                if ours(inner, package) and (plain or operator):
                    seen.add(member)
                    yield f"{name}.{member}{signature_text(inner, not isinstance(value, staticmethod))}"
            elif plain and not isinstance(value, type):
                seen.add(member)
                yield f"{name}.{member}"


#: Members that every class has, and that pickling and printing ask for.
HIDDEN = {"__init__", "__new__", "__repr__", "__str__", "__reduce__", "__reduce_ex__", "__getstate__"}
HIDDEN |= {"__setstate__", "__del__", "__init_subclass__", "__post_init__", "__getattr__", "__dir__"}


def value_lines(name: str, value: Any, package: Path) -> Iterator[str]:
    if isinstance(value, type):
        yield from class_lines(name, value, package)
    elif callable(value):
        yield f"{name}{signature_text(value, False)}"
        if not isinstance(value, types.FunctionType):  # an object that is called, with members of its own
            for member in dir(type(value)):
                if not member.startswith("_"):
                    inner = getattr(value, member)
                    yield f"{name}.{member}{signature_text(inner, False) if callable(inner) else ''}"
    else:
        yield name


def python_lines() -> list[str]:
    package = importlib.import_module("flagstone")
    folder = Path(package.__file__).parent
    lines = []
    for name in package.__all__:
        lines += value_lines(f"flagstone.{name}", getattr(package, name), folder)
    for path in sorted(folder.glob("*.py")):
        if path.stem.startswith("_"):
            continue
        module = importlib.import_module(f"flagstone.{path.stem}")
        for name in getattr(module, "__all__", []):
            value = getattr(module, name)
            if getattr(package, name, None) is value and name in package.__all__:
                lines.append(f"flagstone.{path.stem}.{name}: flagstone.{name}")
            else:
                lines += value_lines(f"flagstone.{path.stem}.{name}", value, folder)
    return sorted(lines)


# --- C++ --------------------------------------------------------------------------------------------------


def code_of(text: str) -> str:
    """Without comments, preprocessor lines and attributes."""
    comment = r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/'
    text = re.sub(comment, lambda found: found[0] if found[0][0] == '"' else " ", text, flags=re.DOTALL)
    text = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", "", text, flags=re.MULTILINE)
    return re.sub(r"\[\[[^\]]*\]\]", "", text)


def closing(text: str, at: int) -> int:
    """Behind the brace that closes the one at `at`."""
    depth = 0
    for match in re.finditer(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])\'|[{}]', text[at:]):
        depth += {"{": 1, "}": -1}.get(match[0], 0)
        if depth == 0:
            return at + match.end()
    return len(text)


def statement(text: str, at: int) -> tuple[str, int]:
    """What stands from `at` to the next `;`, `{` or `}` outside parentheses, and where that is."""
    depth = 0
    for match in re.finditer(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])\'|[(){};]', text[at:]):
        if match[0] in "()":
            depth += 1 if match[0] == "(" else -1
        elif match[0] in "{};" and depth == 0:
            return text[at : at + match.start()], at + match.start()
    return text[at:], len(text)


def is_initialized(words: str) -> bool:
    """Whether the braces that follow are a value, not the body of a function."""
    for aside in (r"operator\s*(\(\)|[^\s(]+)", r"^template\s*<.*>", r"\(.*\)"):
        words = re.sub(aside, "", words)
    return "=" in words


def declarations(text: str, scope: str = "", public: bool = True) -> Iterator[str]:
    """The public declarations of a piece of C++, as `Class: declaration`."""
    at = 0
    start = ""  # of a declaration whose initializer in braces was passed
    while at < len(text):
        said, end = statement(text, at)
        stop = text[end : end + 1]
        for access in re.finditer(r"\b(public|protected|private)\s*:(?!:)", said):
            public = access[1] == "public"
        said = re.sub(r"\b(?:public|protected|private)\s*:(?!:)", " ", said)
        words = " ".join(said.split())
        at = end + 1
        where = f"{scope}: " if scope else ""
        kind = re.match(r"(?:template\s*<.*>\s*)?(enum(?: class| struct)?|class|struct|union)\b", words)
        if stop != "{":
            words, start = f"{start} {words}".strip(), ""
            forward = kind is not None and re.fullmatch(r"(?:enum )?(?:class|struct|union) \w+", words)
            if public and stop == ";" and words and not forward and not words.startswith("static_assert"):
                yield where + words
            continue
        end = closing(text, end)
        inner, at = text[at : end - 1], end
        if re.match(r"(?:inline )?namespace\b|extern \"C\"$", words):
            parts = words.rpartition(" ")[2].split("::")
            if not {"namespace", "detail", "internal"} & {*parts}:  # the first: it has no name
                outer = [part for part in parts if part not in {"flagstone", '"C"'}]
                yield from declarations(inner, "::".join([*([scope] if scope else []), *outer]))
        elif kind is not None and kind[1].startswith("enum"):
            if public:
                yield f"{where}{words} {{ {' '.join(inner.split())} }}"
        elif kind is not None and "(" not in words:
            name = re.sub(r"\s*(?:final\b|:(?!:)).*", "", words[kind.end(1) :]).strip()
            if public:
                yield where + words
                yield from declarations(inner, f"{scope}::{name}" if scope else name, kind[1] != "class")
        elif "(" in words and not is_initialized(words):  # the body of a function
            if public:
                yield (
                    where
                    + re.sub(r"\)\s*((?:const|noexcept|override|final|\s)*):(?!:).*", r") \1", words).strip()
                )
        else:
            start = f"{start} {words} {{{' '.join(inner.split())}}}".strip()


def cpp_lines(top: Path) -> list[str]:
    library, _, _ = rooms.cpp_rooms(top, rooms.table(top))
    lines = []
    for room, names in sorted(rooms.public_headers(library).items()):
        for name in sorted(names):
            text = (library.root / room / name).read_text(encoding="utf-8")
            lines.append(f"{library.prefix}{room}/{name}")
            lines += sorted(f"  {line}" for line in set(declarations(code_of(text))))
    return lines


# --- all --------------------------------------------------------------------------------------------------


def listing(top: Path) -> str:
    head = "# Public names and signatures, made by tools/api.py; a change is a decision.\n"
    return "\n".join([head, "# Python", *python_lines(), "", "# C++", *cpp_lines(top), ""])


def difference(old: str, new: str) -> str:
    lines = difflib.unified_diff(old.splitlines(), new.splitlines(), LISTING, "the faces", lineterm="", n=1)
    return "\n".join(lines)


def main() -> int:
    now = listing(TOP)
    path = TOP / LISTING
    if "--check" not in sys.argv:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(now, encoding="utf-8")
        return 0
    found = difference(path.read_text(encoding="utf-8") if path.exists() else "", now)
    if found:
        print(f"{found}\n{ADVICE}")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
