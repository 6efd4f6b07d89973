"""The table of docs/administrator/security.md: docs/developer/security_tests.md names tests that exist for each of its rows."""
import os
import pathlib
import re

import pytest

pytestmark = pytest.mark.python
ROOT = pathlib.Path(os.environ.get("ROLLCALL_SOURCE_DIR", pathlib.Path(__file__).parents[2]))


def rows(page, heading):
    section = (ROOT / "docs" / page).read_text().split(f"{heading}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def is_there(name, suites):
    kind, _, rest = name.partition(".")
    if not rest:
        return (ROOT / "tests" / "fuzz" / f"{name}_fuzz.cpp").exists()
    if kind in ("python", "slurm"):
        return any(f"pytest.mark.{kind}" in path.read_text() for path in (ROOT / "tests").rglob(f"{rest}.py"))
    return any(test == rest or rest == "*" for suite, test in suites if suite == kind)


def test_every_row_of_the_security_table_names_existing_tests():
    sources = [path.read_text() for path in (ROOT / "tests").rglob("*_test.cpp")]
    suites = {match for text in sources for match in re.findall(r"^TEST(?:_F|_P)?\((\w+),\s*(\w+)\)", text, re.M)}
    claims = rows("administrator/security.md", "## What a stranger can do")
    shown = rows("developer/security_tests.md", "# Tests of the security page")
    assert len(claims) >= 11 and all(len(row) == 4 and all(row) for row in claims)
    assert [row[0] for row in shown] == [row[0] for row in claims]
    for command, tests in shown:
        named = re.findall(r"`([\w.*]+)`", tests)
        assert named, command
        missing = [name for name in named if not is_there(name, suites)]
        assert not missing, f"{command}: {missing}: no such test"
