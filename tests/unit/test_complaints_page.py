"""docs/user/complaints.md names tests: each of them exists, and every complaint has one."""

import os
import pathlib
import re

ROOT = pathlib.Path(os.environ.get("ROLLCALL_SOURCE_DIR", pathlib.Path(__file__).parents[2]))
ROWS = [line for line in (ROOT / "docs" / "user/complaints.md").read_text().splitlines() if re.match(r"\| \d+ \|", line)]
PYTHON = re.compile(r"`(test_\w+\.py)::(test_\w+)`")
CPP = re.compile(r"`([A-Z]\w+)\.([A-Z]\w+)`")


def test_there_are_eighteen_each_with_thread_and_test():
    assert [int(row.split("|")[1]) for row in ROWS] == list(range(1, 19))
    for row in ROWS:
        assert re.search(r"[\w-]+/[\w.-]+#\d+", row.split("|")[2]), row
        assert PYTHON.search(row) or CPP.search(row), row


def test_every_test_that_is_named_exists():
    for file, name in PYTHON.findall("\n".join(ROWS)):
        (path,) = ROOT.glob(f"tests/*/{file}")
        assert f"def {name}(" in path.read_text(), f"{file}::{name}"
    sources = "\n".join(path.read_text() for path in ROOT.glob("tests/unit/runtime/**/*_test.cpp"))
    for suite, name in CPP.findall("\n".join(ROWS)):
        assert re.search(rf"TEST(_F|_P)?\({suite}, {name}\)", sources), f"{suite}.{name}"


def test_every_numbered_test_is_on_the_page():
    text = (ROOT / "tests" / "slurm" / "test_complaints.py").read_text()
    for number, name in re.findall(r"^def (?=test_(\d\d)_)(test_\w+)", text, re.M):
        assert f"`test_complaints.py::{name}`" in ROWS[int(number) - 1], name
