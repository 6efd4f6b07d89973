"""docs/settings.md is what the programs print; a change of a table without it fails here."""
import os
import pathlib
import subprocess

ROOT = pathlib.Path(os.environ.get("ROLLCALL_SOURCE_DIR", pathlib.Path(__file__).parents[2]))
BUILD = pathlib.Path(os.environ.get("ROLLCALL_BUILD_DIR", ROOT / "build" / "dev"))


def printed(program):
    # ROLLCALL_ variables are settings, and unknown ones are refused: those of the tests must not reach the program.
    clean = {name: value for name, value in os.environ.items() if not name.startswith("ROLLCALL_")}
    return subprocess.run([BUILD / program, "--print-settings-markdown"], check=True, capture_output=True, text=True,
                          env=clean).stdout


def test_the_page_is_what_the_programs_print():
    expected = printed("runtime/rollcall") + "\n" + printed("trainer/rollcall-train")
    hint = "write it anew: scripts/update-settings-page"
    assert (ROOT / "docs" / "settings.md").read_text() == expected, hint
