"""The progress and outcome that scripts/quickstart and scripts/test print, and the three CI runs that together take every test."""
import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(os.environ.get("ROLLCALL_SOURCE_DIR", pathlib.Path(__file__).parents[2]))
sys.path.insert(0, str(ROOT / "tests"))
import thirds  # noqa: E402  (found by the line above)

pytestmark = pytest.mark.python


def run_stages(folder, text):
    script = f"set -euo pipefail\nstage_logs={folder}/logs\n. {ROOT}/scripts/stages.sh\n{text}"
    return subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60, check=False)


def test_a_failed_stage_ends_the_command_and_shows_its_log(tmp_path):
    done = run_stages(tmp_path, "plan one 1; plan two 1; fails() { echo why; false; echo not reached; }\nstage one fails\nstage two true")
    assert done.returncode == 1 and "one" in done.stdout and "why" in done.stdout and "failed" in done.stdout
    assert "not reached" not in done.stdout and "two" not in done.stdout


def test_stage_output_is_logged_and_the_table_lists_all_stages(tmp_path):
    done = run_stages(tmp_path, "plan 'test programs' 1\nstage 'test programs' echo hidden\nstage_table")
    assert done.returncode == 0 and "hidden" not in done.stdout
    assert (tmp_path / "logs" / "test-programs.log").read_text() == "hidden\n"
    assert re.findall(r"^(\S.*?) {2,}\d+ s$", done.stdout, re.M) == ["test programs", "test programs", "total"]


@pytest.mark.parametrize("log, expected", [
    ("", "2 of 3: build, about 2 min left"), ("[41/82] Building\n", "2 of 3: build, 50 %, about 80 s left"),
    (" 3/4 Test #7: x\n", "2 of 3: build, 75 %, about 2 min left"), ("3/4 of it\n", "2 of 3: build, about 2 min left")], ids=repr)
def test_the_progress_line_shows_progress_and_remaining_time(tmp_path, log, expected):
    (tmp_path / "log").write_text(log)
    done = run_stages(tmp_path, f"plan setup 10; plan build 120; plan tests 40\nprogress_line build 40 {tmp_path}/log")
    assert done.stdout == expected, done.stderr


def test_remaining_time_adapts_to_slow_machines(tmp_path):
    (tmp_path / "log").write_text("[50/100]\n")
    done = run_stages(tmp_path, f"plan build 200; plan tests 100\nprogress_line build 200 {tmp_path}/log")
    assert done.stdout == "1 of 2: build, 50 %, about 7 min left", done.stderr


GOOGLE = """[ RUN      ] Device.Computes
/src/a_test.cpp:7: Skipped
no GPU

[  SKIPPED ] Device.Computes (0 ms)
[  PASSED  ] 5 tests.
[  SKIPPED ] 1 test, listed below:
[  SKIPPED ] Device.Computes
"""
PYTEST = "SKIPPED [2] tests/trainer/test_x.py:3: no Lightning\n=== 7 passed, 2 skipped in 3.2s ===\n"
FAILED = "E   assert 1 == 2\n1 failed, 3 passed in 1s\n"


def summary(folder, *cases):
    body = "".join(f'<testcase name="{name}" time="{seconds}" status="{status}"><system-out>{output}</system-out></testcase>'
                   for name, seconds, status, output in cases)
    (folder / "tests.xml").write_text(f"<testsuite>{body}</testsuite>")
    return subprocess.run([ROOT / "scripts" / "test-summary", folder / "tests.xml"], capture_output=True, text=True, check=False)


def test_the_summary_counts_single_tests_and_gives_reasons(tmp_path):
    done = summary(tmp_path, ("a_test", 2, "run", GOOGLE), ("python.short", 9, "run", PYTEST), ("kills", 1, "run", "done\n"))
    assert done.returncode == 0
    assert done.stdout.splitlines() == ["longest: python.short 9 s, a_test 2 s, kills 1 s", "skipped 2: no Lightning", "skipped 1: no GPU",
                                        "13 passed, 0 failed, 3 skipped"]


def test_failed_tests_are_shown_and_fail_the_summary(tmp_path):
    done = summary(tmp_path, ("python.short", 9, "fail", FAILED), ("crashed_test", 1, "fail", ""))
    assert done.returncode == 1
    assert "-- python.short failed:\nE   assert 1 == 2" in done.stdout and done.stdout.endswith("\n3 passed, 2 failed, 0 skipped\n")


def test_crashed_or_missing_test_programs_count_as_failed(tmp_path):
    assert summary(tmp_path, ("a_test", 1, "run", "[ RUN      ] A.B\n")).stdout.endswith("\n0 passed, 1 failed, 0 skipped\n")
    missing = summary(tmp_path, ("a_test", 0, "notrun", "Unable to find executable"))
    assert missing.returncode == 1 and missing.stdout.endswith("\n0 passed, 1 failed, 0 skipped\n")


def test_a_run_without_tests_fails(tmp_path):
    assert subprocess.run([ROOT / "scripts" / "test-summary", tmp_path / "none.xml"], capture_output=True, check=False).returncode == 1


def test_every_long_test_is_in_exactly_one_third():
    build = pathlib.Path(os.environ["ROLLCALL_BUILD_DIR"])

    def selected(*options):
        listed = subprocess.run(["ctest", "-N", "-L", "long", *options], cwd=build, capture_output=True, text=True, check=True).stdout
        return re.findall(r"Test +#\d+: (\S+)", listed)
    parts = []
    for third in "123":
        printed = subprocess.run([sys.executable, ROOT / "tests" / "thirds.py", build, third], capture_output=True, text=True, check=True).stdout
        parts.append(selected("-R", printed.splitlines()[1]))
    assert sorted(sum(parts, [])) == sorted(selected()) and all(parts)


def test_the_stages_of_the_thirds_match_scripts_test():
    script = (ROOT / "scripts" / "test").read_text()
    known = re.findall(r"^ {4}([a-z-]+)\) stage ", script, re.M)
    assert sorted(known) == sorted(thirds.STAGES) and f"stages=({' '.join(thirds.STAGES)})" in script
