"""A step's first process may have overwritten its environment, as setproctitle does: /proc then shows no variables."""

import os
import pathlib
import resource
import subprocess
import sys

import pytest

pytestmark = pytest.mark.python
ROLLCALL = pathlib.Path(os.environ["ROLLCALL_BUILD_DIR"]) / "runtime" / "rollcall"
# The fields env_end of /proc/self/stat (proc(5)): the end of the environment has no zero byte any more.
FIRST_PROCESS = """
import ctypes, os, subprocess, sys
end = int(open("/proc/self/stat").read().rpartition(")")[2].split()[48])
ctypes.memset(end - 1, ord("x"), 1)
sys.exit(subprocess.run(sys.argv[1:], env=dict(os.environ)).returncode)
"""


@pytest.mark.parametrize(("command", "expected"), [(("--version",), "rollcall "), (("--help",), "usage: rollcall"),
                                               (("exec", "--", "echo", "started"), "started\n")])
def test_rollcall_works_below_a_process_without_a_readable_environment(tmp_path, command, expected):
    daemon = tmp_path / "slurmstepd"  # the kernel names a process after its script
    daemon.write_text('#!/bin/sh\n"$@"\nexit $?\n')
    daemon.chmod(0o755)
    ended = subprocess.run([daemon, sys.executable, "-c", FIRST_PROCESS, ROLLCALL, *command], capture_output=True, text=True, timeout=60,
                           check=False, env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "SLURM_JOB_ID": "9"},
                           preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30)))
    assert ended.returncode == 0 and expected in ended.stdout, ended.stderr
