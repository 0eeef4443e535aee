"""The listing of public names says what is there, and the scanners see what they should."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import api

ROOT = Path(__file__).resolve().parent.parent.parent


def test_the_listing_is_up_to_date():
    command = [sys.executable, str(ROOT / "tools" / "api.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_change_is_shown_with_what_to_do(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["api.py", "--check"])
    monkeypatch.setattr(api, "listing", lambda top: "flagstone.matmul(A, B)\n")
    monkeypatch.setattr(api, "TOP", tmp_path)
    (tmp_path / "docs" / "reference").mkdir(parents=True)
    (tmp_path / api.LISTING).write_text("flagstone.matmul(A, B, C)\n")
    assert api.main() == 1
    told = capsys.readouterr().out
    assert "-flagstone.matmul(A, B, C)\n+flagstone.matmul(A, B)\n" in told
    assert told.rstrip().endswith(api.ADVICE)
    monkeypatch.setattr(sys, "argv", ["api.py"])
    assert api.main() == 0
    monkeypatch.setattr(sys, "argv", ["api.py", "--check"])
    assert api.main() == 0


def test_the_listing_depends_on_no_place():
    lines = api.python_lines()
    assert lines == sorted(lines)
    assert "flagstone.Array.flush() -> None" in lines
    assert "flagstone.Array.shape" in lines
    assert any(line.startswith("flagstone.matmul(A: Any, B: Any, /, *, out: Any = None") for line in lines)
    assert any(line.startswith("flagstone.matmul.plan(") for line in lines)
    assert any(line.startswith("flagstone.Runtime(memory: ") for line in lines)
    for line in lines:
        assert "0x" not in line
        assert str(ROOT) not in line


def given(a, b: int = 1, /, c: str = "x", *rest: float, d=len, e: Path | None = None, **more) -> list[int]:
    raise NotImplementedError


def test_signatures():
    shown = (
        "(a, b: int = 1, /, c: str = 'x', *rest: float, d=..., e: Path | None = None, **more) -> list[int]"
    )
    assert api.signature_text(given, False) == shown
    assert api.signature_text(lambda self, *, x=1: x, True) == "(*, x=1)"


class Base:
    """A base.

    Parameters
    ----------
    x : int
    """

    def __init__(self, x: int) -> None:
        self.x = x

    def _hidden(self) -> None: ...

    def shown(self, y: int) -> int:
        return y

    @property
    def size(self) -> int:
        return self.x

    @classmethod
    def made(cls, x: int) -> Base:
        return cls(x)

    @staticmethod
    def plain(x: int) -> int:
        return x

    def __add__(self, other: Base) -> Base:
        return other


@dataclass
class Fields(Base):
    first: int
    second: str = "x"


def test_classes(monkeypatch):
    here = Path(__file__).with_suffix("")
    root = Base.__module__.split(".")[0]
    monkeypatch.setattr(api, "ours", lambda function, package: function.__code__.co_filename == __file__)
    monkeypatch.setattr(sys.modules[root], "__all__", ["Base"], raising=False)
    lines = list(api.class_lines("x.Base", Base, here.with_name(root)))
    assert lines[:2] == ["class x.Base", "x.Base(x: int) -> None"]
    members = ["__add__(other: Base) -> Base", "made(x: int) -> Base", "plain(x: int) -> int"]
    assert sorted(lines[2:]) == [f"x.Base.{m}" for m in [*members, "shown(y: int) -> int", "size"]]
    lines = list(api.class_lines("x.Fields", Fields, here.with_name(root)))
    assert lines[:3] == ["class x.Fields(Base)", "x.Fields.first", "x.Fields.second"]


HEADER = r"""
#pragma once
#include <vector>
#define LIMIT \
  3
namespace flagstone {
namespace detail { void hidden(); }
namespace { void hidden_too(); }
class Later;  // said elsewhere: class Fake { };
/* void comment(); */
inline constexpr int limit = 3, other{4};
enum class Kind : int { one, two };
template <class T>
[[nodiscard]] T twice(T x) { return [&] { return x + x; }(); }
class Thing final : public Base {
 public:
  Thing() = default;
  explicit Thing(int size, Options options = {}) : size_(size), text_("{") { check(size); }
  ~Thing();
  bool operator()(const char* text = "};") const noexcept { return true; }
  struct Inner { int a = 0; double b{2}; };
 protected:
  void guarded();
 private:
  int size_;
};
struct Open { static Open made(); private: int hidden; };
static_assert(sizeof(int) == 4);
using Index = long;
}  // namespace flagstone
namespace flagstone::kernel { void gemm(const Tile& a,
                                        Op op = {}); }
"""


def test_declarations_of_a_header():
    assert sorted(api.declarations(api.code_of(HEADER))) == sorted(
        [
            "inline constexpr int limit = 3, other {4}",
            "enum class Kind : int { one, two }",
            "template <class T> T twice(T x)",
            "class Thing final : public Base",
            "Thing: Thing() = default",
            "Thing: explicit Thing(int size, Options options = {})",
            "Thing: ~Thing()",
            'Thing: bool operator()(const char* text = "};") const noexcept',
            "Thing: struct Inner",
            "Thing::Inner: int a = 0",
            "Thing::Inner: double b {2}",
            "struct Open",
            "Open: static Open made()",
            "using Index = long",
            "kernel: void gemm(const Tile& a, Op op = {})",
        ]
    )
