"""docs/administrator/security.md's table of what a stranger can do: each cell of it names tests that exist."""
import os
import pathlib
import re

ROOT = pathlib.Path(os.environ.get("ROLLCALL_SOURCE_DIR", pathlib.Path(__file__).parents[2]))


def rows():
    section = (ROOT / "docs" / "administrator/security.md").read_text().split("## What a stranger can do\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def is_there(name, suites):
    kind, _, rest = name.partition(".")
    if not rest:
        return (ROOT / "tests" / "fuzz" / f"{name}_fuzz.cpp").exists()
    if kind in ("unit", "python", "slurm"):
        return (ROOT / "tests" / kind / f"{rest}.py").exists()
    return any(test == rest or rest == "*" for suite, test in suites if suite == kind)


def test_what_the_table_says_is_shown_by_tests_that_exist():
    sources = [path.read_text() for path in (ROOT / "tests").rglob("*_test.cpp")]
    suites = {match for text in sources for match in re.findall(r"^TEST(?:_F|_P)?\((\w+),\s*(\w+)\)", text, re.M)}
    assert len(rows()) >= 11
    for row in rows():
        named = re.findall(r"`([\w.*]+)`", row[-1])
        assert len(row) == 5 and all(row) and named, row
        missing = [name for name in named if not is_there(name, suites)]
        assert not missing, f"{row[0]}: {missing}: no such test"
