"""What notebooks show: a table of what is known without reading."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["html_table"]


def html_table(kind: str, facts: Mapping[str, str], picture: str = "") -> str:
    """Return a table of facts; `picture` (SVG) stands beside them."""
    from html import escape  # notebooks only

    left = "style='text-align:left;white-space:pre-wrap'"
    beside = f"<td rowspan='{max(1, len(facts))}'>{picture}</td>" if picture else ""
    rows = []
    for name, text in facts.items():
        rows.append(f"<tr><th {left}>{escape(name)}</th><td {left}>{escape(text)}</td>{beside}</tr>")
        beside = ""
    return f"<table><caption>flagstone.{escape(kind)}</caption>{''.join(rows)}</table>"
