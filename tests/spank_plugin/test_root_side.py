"""The root processes on a node open no file named by a user, and start no shell."""

import os
import shutil
import subprocess

import pytest

import system_calls

pytestmark = [pytest.mark.slurm, pytest.mark.long, pytest.mark.skipif(os.geteuid() != 0, reason="only root's slurmd runs steps of another user")]
USER = "nobody"


@pytest.fixture(scope="module")
def calls(cluster, tmp_path_factory):
    """The system calls of slurmd and its steps while a user runs one with files and values of their own."""
    if system_calls.missing():
        pytest.skip(system_calls.missing())
    folder = cluster.new_folder()
    home = folder / "users-home" / ".config" / "rollcall"
    home.mkdir(parents=True)
    (home / "config.toml").write_text("threads = 3\n")
    python = folder / "users-venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.touch(0o755)
    subprocess.run(["chown", "-R", USER, folder], check=True)
    variables = {"ROLLCALL_CACHE_SHARED": str(folder / "users-cache"),
                 "ROLLCALL_VENV": str(folder / "users-venv"), "ROLLCALL_RENDEZVOUS_FOLDER": str(folder / "users-folder"),
                 "XDG_CONFIG_HOME": str(home.parent)}
    as_user = ["runuser", "-u", USER, "--", "srun", "--chdir=/tmp", "--ddp", "-N2"]
    if cluster.run(*as_user, "true", check=False).returncode != 0:
        pytest.skip(f"{USER} cannot run steps here")
    pids = [int((cluster.folder / "run" / f"slurmd.jwb000{node}.pid").read_text()) for node in (1, 2)]
    watch = system_calls.Watch(pids, tmp_path_factory.mktemp("strace") / "log")
    try:
        with watch:
            result = cluster.run(*as_user, shutil.which("env"), env=variables)
    except PermissionError as reason:
        pytest.skip(f"processes cannot be watched here: {reason}")
    assert "OMP_NUM_THREADS=3" in result.stdout
    return list(watch.calls())


def test_root_opens_no_files_named_by_the_user(calls):
    opened = [(text, user) for name, text, user in calls if name in ("open", "openat") and "users-" in text]
    assert any("config.toml" in text for text, _ in opened)  # it was read at all
    assert [text for text, user in opened if user == 0] == []


def test_root_starts_no_other_programs(calls):
    started = [(text, user) for name, text, user in calls if name == "execve" and text.rstrip().endswith("= 0")]
    assert any("/env" in text for text, _ in started) and any("spank-hook" in text for text, _ in started)
    assert [text for text, _ in started if not any(name in text for name in ("slurmstepd", "/env", "spank-hook"))] == []
    assert [text for text, user in started if "spank-hook" in text and user == 0] == []
