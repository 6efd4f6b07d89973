"""A short run of tests/spank_plugin/soak.py: the script works and finds no problem. A real soak test needs hundreds of steps."""

import subprocess
import sys

import pytest

from common_fixtures import built
from minicluster import SOURCE

pytestmark = [pytest.mark.slurm, pytest.mark.long]


def test_a_soak_of_thirty_steps_finds_nothing_wrong(plugin, rollcall):
    built("tests/meet_in_step")
    command = [sys.executable, str(SOURCE / "tests" / "spank_plugin" / "soak.py"), "--steps=30", "--at-once=8", "--seed=5"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=600)
    print(result.stdout)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "30 steps in " in result.stdout and "nothing is wrong" in result.stdout
