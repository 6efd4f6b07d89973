"""Tests lie beside their subject: each folder of C++ tests has a program, and each Python file has a label (tests/CMakeLists.txt)."""
import collections
import os
import pathlib
import re

import pytest

pytestmark = pytest.mark.python
TESTS = pathlib.Path(os.environ.get("ROLLCALL_SOURCE_DIR", pathlib.Path(__file__).parents[2])) / "tests"
CMAKE = (TESTS / "CMakeLists.txt").read_text()


def test_the_tests_of_each_folder_belong_to_one_program():
    named = [folder for folders in re.findall(r"^ *rollcall_test\(\w+((?:\s+[\w/]+)+?)\s+LABELS", CMAKE, re.M) for folder in folders.split()]
    assert sorted(named) == sorted({str(path.parent.relative_to(TESTS)) for path in TESTS.rglob("*_test.cpp")})


def test_every_python_test_file_has_one_label():
    marks = {path: re.findall(r"^pytestmark = .*", path.read_text(), re.M) for path in TESTS.rglob("test_*.py")}
    wrong = [str(path) for path, lines in marks.items() if len(re.findall(r"pytest\.mark\.(?:python|slurm)\b", " ".join(lines))) != 1]
    assert len(marks) > 100 and wrong == []


def test_test_file_names_are_unique():
    counts = collections.Counter(path.name for path in TESTS.rglob("test_*.py"))
    assert [name for name, count in counts.items() if count > 1] == []
