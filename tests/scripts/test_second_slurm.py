"""The error messages of scripts/second-slurm. (The unpacked Slurm is tested by the suites that run with it.)"""

import subprocess

import pytest

from minicluster import SOURCE, clean_environment

pytestmark = [pytest.mark.slurm, pytest.mark.long]

SCRIPT = SOURCE / "scripts" / "second-slurm"


def run(*arguments, **variables):
    return subprocess.run([SCRIPT, *arguments], env={**clean_environment(), **variables}, text=True,
                          capture_output=True, timeout=120)


@pytest.mark.parametrize("arguments, text", [
    (["--suite=../etc", "install"], "--suite: ../etc: is not the name of a Debian release"),
    (["--frobnicate"], "--frobnicate: is not a command or an option"),
    (["run"], "run: needs a command"),
])
def test_second_slurm_rejects_bad_input_in_one_line(arguments, text):
    result = run(*arguments)
    assert result.returncode == 64 and text in result.stderr and "; try " in result.stderr and result.stderr.count("\n") == 1


def test_print_root_depends_only_on_the_environment(tmp_path):
    assert run("--suite=forky", "--print-root", ROLLCALL_DEPS=str(tmp_path)).stdout == f"{tmp_path}/slurm-forky\n"
    assert list(tmp_path.iterdir()) == []


def test_a_mirror_without_the_release_is_an_error_leaving_no_files(tmp_path):
    result = run("install", ROLLCALL_DEPS=str(tmp_path), ROLLCALL_DEBIAN_MIRROR=f"file:{tmp_path}/nothing")
    assert result.returncode == 69 and "rollcall: second-slurm: " in result.stderr and "; try " in result.stderr
    assert not (tmp_path / "slurm-trixie").exists()


def test_second_slurm_help_names_every_command():
    text = run("--help").stdout
    for word in ("install", "--print-root", "run CMD", "env", "--suite=SUITE", "ROLLCALL_DEBIAN_MIRROR"):
        assert word in text
