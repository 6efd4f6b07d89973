"""docs/developer/evidence.md names tests: each of them exists, and every public report of a problem has one."""

import os
import pathlib
import re

import pytest

pytestmark = pytest.mark.python
ROOT = pathlib.Path(os.environ.get("ROLLCALL_SOURCE_DIR", pathlib.Path(__file__).parents[2]))
PAGE = (ROOT / "docs" / "developer" / "evidence.md").read_text()
ROWS = [line for line in PAGE.splitlines() if re.match(r"\| \d+ \|", line)]
REPORT = re.compile(r"[\w-]+/[\w.-]+#\d+")
PYTHON = re.compile(r"`(test_\w+\.py)::(test_\w+)`")
CPP = re.compile(r"`([A-Z]\w+)\.([A-Z]\w+)`")


def test_the_page_has_eighteen_rows_with_report_and_test():
    assert [int(row.split("|")[1]) for row in ROWS] == list(range(1, 19))
    for row in ROWS:
        assert REPORT.search(row.split("|")[2]), row
        assert PYTHON.search(row) or CPP.search(row), row


def test_every_report_is_on_the_users_page():
    users = (ROOT / "docs" / "user" / "troubleshooting.md").read_text()
    on_users = sorted("#".join(found) for found in re.findall(r"https://github\.com/([\w-]+/[\w.-]+)/issues/(\d+)", users))
    assert on_users == sorted(report for row in ROWS for report in REPORT.findall(row.split("|")[2]))


def test_every_test_that_is_named_exists():
    for file, name in PYTHON.findall(PAGE):
        (path,) = (ROOT / "tests").rglob(file)
        assert f"def {name}(" in path.read_text(), f"{file}::{name}"
    sources = "\n".join(path.read_text() for path in ROOT.glob("tests/runtime/**/*_test.cpp"))
    for suite, name in CPP.findall("\n".join(ROWS)):
        assert re.search(rf"TEST(_F|_P)?\({suite}, {name}\)", sources), f"{suite}.{name}"


def test_every_file_that_is_named_exists():
    for file in set(re.findall(r"`(test_\w+\.py)`", PAGE)):
        assert len(list((ROOT / "tests").rglob(file))) == 1, file
    for path in set(re.findall(r"\b((?:tests|benchmarks)/[\w/]+\.py)\b", PAGE)):
        assert (ROOT / path).is_file(), path


def test_every_numbered_test_is_on_the_page():
    text = (ROOT / "tests" / "spank_plugin" / "test_complaints.py").read_text()
    for number, name in re.findall(r"^def (?=test_(\d\d)_)(test_\w+)", text, re.M):
        assert f"`test_complaints.py::{name}`" in ROWS[int(number) - 1], name
