"""What an error says: one sentence, with these words."""

from __future__ import annotations

import re

import pytest


def sentence(error: BaseException) -> str:
    """The message, which must be one sentence (or two: the reason, what to do) on one line, free of C++."""
    text = str(error)
    assert "\n" not in text.strip(), text
    assert len(text) < 400, text
    assert not re.search(r"std::|0x[0-9a-f]{6}|Traceback|basic_string|terminate", text), text
    return text


def fails(classes, *words):
    """Context manager: one of `classes`, a single sentence holding all `words` (regular expressions)."""

    class Check:
        def __enter__(self):
            self.raises = pytest.raises(classes)
            self.info = self.raises.__enter__()
            return self.info

        def __exit__(self, *exc):
            caught = self.raises.__exit__(*exc)
            text = sentence(self.info.value)
            for word in words:
                assert re.search(word, text), f"{word!r} is not in {text!r}"
            return caught

    return Check()
