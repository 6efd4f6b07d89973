"""docs/reference/settings.md and docs/reference/environment.md are what the programs print; a change of a table without them fails here."""
import os
import pathlib
import re
import subprocess

import pytest

pytestmark = pytest.mark.python
ROOT = pathlib.Path(os.environ.get("ROLLCALL_SOURCE_DIR", pathlib.Path(__file__).parents[2]))
BUILD = pathlib.Path(os.environ.get("ROLLCALL_BUILD_DIR", ROOT / "build" / "release"))
HINT = "regenerate it: scripts/update-pages"
SECOND_PART = "\n## rollcall-train\n"


def printed(program, option="--print-settings-markdown"):
    if not (BUILD / program).exists():
        pytest.skip(f"{BUILD / program} is not built")
    # ROLLCALL_ variables are settings, and unknown ones are refused: those of the tests must not reach the program.
    clean = {name: value for name, value in os.environ.items() if not name.startswith("ROLLCALL_")}
    return subprocess.run([BUILD / program, option], check=True, capture_output=True, text=True, env=clean).stdout


def test_the_page_of_settings_is_what_the_programs_print():
    launching, separator, training = (ROOT / "docs" / "reference/settings.md").read_text().partition(SECOND_PART)
    assert launching == printed("runtime/rollcall"), HINT
    assert separator + training == "\n" + printed("trainer/rollcall-train"), HINT


def test_the_page_of_variables_is_what_the_program_prints():
    assert (ROOT / "docs" / "reference/environment.md").read_text() == printed("runtime/rollcall", "--print-environment-markdown"), HINT


def test_variables_of_the_projects_own_scripts_and_tests_are_known():
    """A program refuses a ROLLCALL_ variable that it does not know, and developers have these set while they run it."""
    reads = re.compile(r"""(?:environ(?:\.get)?[\[(]["']|\$\{?|getenv\(")(ROLLCALL_[A-Z_]+)""")
    files = [path for folder in ("scripts", "tests", "benchmarks", ".ci") for path in (ROOT / folder).rglob("*")
             if path.is_file() and path.suffix in {"", ".py", ".cpp", ".h"}]
    read = {name for path in files for name in reads.findall(path.read_text(errors="replace"))}
    page = (ROOT / "docs" / "reference/environment.md").read_text()
    assert len(read) > 5
    assert sorted(name for name in read if f"| `{name}` |" not in page) == []


def test_only_launch_settings_reads_settings_by_name():
    """Only LaunchSettings reads launch settings by name."""
    table = (ROOT / "runtime" / "settings" / "launch_settings.cpp").read_text()
    names = re.findall(r'Setting\{\s*"([a-z.-]+)"', table)
    assert len(names) > 30
    asks = re.compile(rf'\.(?:text|on|number|integer|list|port_range)\("(?:{"|".join(map(re.escape, names))})"\)')
    files = [path for path in (ROOT / "runtime").rglob("*.[ch]*") if path.parent.name != "settings"]
    assert {path.name: asks.findall(path.read_text()) for path in files if asks.search(path.read_text())} == {}
    assert len(asks.findall(table)) > 20
