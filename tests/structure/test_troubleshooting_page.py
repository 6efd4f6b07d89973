"""docs/user/troubleshooting.md quotes messages: the trainer has each of them."""

import errno
import os
import pathlib
import re

import pytest

pytestmark = pytest.mark.python
ROOT = pathlib.Path(os.environ.get("ROLLCALL_SOURCE_DIR", pathlib.Path(__file__).parents[2]))
PLACE = rf"…|/metrics\.jsonl|step-|\.h5\b|\b[NS]\b|\d+(?:\.\d+ MiB)?|{os.strerror(errno.ENOSPC)}"


def quoted_messages():
    page = (ROOT / "docs" / "user" / "troubleshooting.md").read_text()
    rows = page.split("## Checkpoints")[1].splitlines()
    return [text for row in rows if row.startswith("|") for text in re.findall(r'"([^"]+)"', row.split("|")[1])]


def literals():
    """The text of the trainer's sources, with neighbouring string literals joined."""
    sources = "\n".join(path.read_text() for path in sorted(ROOT.glob("trainer/**/*.cpp")))
    return re.sub(r'"\s*"', "", sources)


def test_every_quoted_message_exists_in_the_trainer():
    text = literals()
    messages = quoted_messages()
    assert len(messages) > 12
    for message in messages:
        parts = [part.strip(" :;,") for part in re.split(PLACE, message)]
        long_ones = [part for part in parts if len(part.split()) > 1]
        assert long_ones, message
        for part in long_ones:
            assert part in text, f"{message}: {part}"
