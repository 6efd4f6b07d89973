"""CONTRIBUTING.md's table "Where an addition goes" names files that are there."""
import os
import pathlib
import re

import pytest

pytestmark = pytest.mark.python
ROOT = pathlib.Path(os.environ.get("ROLLCALL_SOURCE_DIR", pathlib.Path(__file__).parents[2]))


def test_the_table_of_additions_names_files_that_exist():
    table = (ROOT / "CONTRIBUTING.md").read_text().partition("### Where an addition goes")[2].partition("\n## ")[0]
    paths = re.findall(r"`((?:runtime|trainer|tests|scripts)/[^` ]*)`", table)
    assert len(paths) > 20
    # NAME is what is added: the folder that it goes to is there.
    assert [path for path in paths if not (ROOT / re.sub(r"[^/]*NAME.*", "", path)).exists()] == []
