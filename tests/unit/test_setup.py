"""scripts/setup leaves nothing behind that keeps other packages' services from starting."""

import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(os.environ.get("ROLLCALL_SOURCE_DIR", pathlib.Path(__file__).parents[2]))
POLICY = "/usr/sbin/policy-rc.d"


def program(folder, name, text):
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)


@pytest.fixture
def setup(tmp_path):
    """Runs scripts/setup --build for a user who needs sudo, with a policy file in `tmp_path` and programs that only note their call."""
    programs = tmp_path / "programs"
    programs.mkdir()
    policy = tmp_path / "policy-rc.d"
    script = tmp_path / "setup"
    script.write_text((ROOT / "scripts" / "setup").read_text().replace(POLICY, str(policy)))
    program(programs, "id", "echo 1000")
    program(programs, "dpkg-query", "exit 1")
    program(programs, "sudo", f"""echo "$*" >> {tmp_path}/sudo.log
case $1 in apt-get|env) exec {programs}/apt-get;; esac
PATH=/usr/bin:/bin exec "$@" """)
    program(programs, "rm", "echo 'rm: Permission denied' >&2; exit 1")  # as for a user who is not root

    def run(apt_get):
        program(programs, "apt-get", f"test -e {policy} || exit 3\n{apt_get}")
        environment = {**os.environ, "PATH": f"{programs}:/usr/bin:/bin", "ROLLCALL_DEPS": "/dev/null/nowhere"}
        return subprocess.run(["bash", script, "--build"], env=environment, capture_output=True, text=True, timeout=60, check=False)

    run.policy = policy
    run.sudo_calls = lambda: (tmp_path / "sudo.log").read_text().splitlines()
    return run


@pytest.mark.parametrize("apt_get", ["exit 0", "exit 100", "kill -TERM $PPID"], ids=["done", "failed", "terminated"])
def test_the_policy_that_keeps_services_down_is_removed_by_who_made_it(setup, apt_get):
    result = setup(apt_get)
    assert result.returncode != 3, "the policy was not there when it counts"
    assert any(call.startswith("tee ") for call in setup.sudo_calls()), result.stderr
    assert not setup.policy.exists(), result.stderr


def test_a_policy_of_the_machine_stays(setup):
    setup.policy.write_text("#!/bin/sh\nexit 101\n")
    setup("exit 0")
    assert setup.policy.exists() and not any("policy" in call for call in setup.sudo_calls())
