"""Tests lie with their subject: no folder's tests of C++ are left out, and a file of Python says what it needs (tests/CMakeLists.txt)."""
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


def test_a_file_of_python_names_one_label():
    said = {path: re.findall(r"^pytestmark = .*", path.read_text(), re.M) for path in TESTS.rglob("test_*.py")}
    wrong = [str(path) for path, lines in said.items() if len(re.findall(r"pytest\.mark\.(?:python|slurm)\b", " ".join(lines))) != 1]
    assert len(said) > 100 and wrong == []


def test_no_two_files_share_the_name_of_a_test():
    counts = collections.Counter(path.name for path in TESTS.rglob("test_*.py"))
    assert [name for name, count in counts.items() if count > 1] == []
