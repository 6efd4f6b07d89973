"""No program or library of the build searches the working directory for libraries, where another user may have placed one."""
import os
import pathlib
import re
import subprocess

import pytest

pytestmark = pytest.mark.python
BUILD = pathlib.Path(os.environ["ROLLCALL_BUILD_DIR"])
MADE = sorted(path for folder in ("runtime", "trainer", "spank_plugin", "lib") for path in (BUILD / folder).rglob("*")
              if path.is_file() and not path.is_symlink() and path.open("rb").read(4) == b"\x7fELF" and path.suffix != ".o")


def test_the_build_contains_the_programs_and_the_plugin():
    assert {"rollcall", "rollcall-train", "spank_rollcall.so"} <= {path.name for path in MADE}


@pytest.mark.parametrize("path", MADE, ids=[str(path.relative_to(BUILD)) for path in MADE])
def test_run_paths_contain_only_absolute_folders(path):
    table = subprocess.run(["readelf", "-d", path], capture_output=True, text=True, check=True, env={**os.environ, "LC_ALL": "C"}).stdout
    assert "(RPATH)" not in table  # which would go before LD_LIBRARY_PATH, and be asked by libraries too
    for folders in re.findall(r"\((?:RUNPATH|RPATH)\)\s+Library r(?:un)?path: \[(.*)\]", table):
        assert all(folder.startswith(("/", "$ORIGIN")) for folder in folders.split(":")), folders
