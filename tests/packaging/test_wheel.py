"""packaging/wheel: pip installs all programs, which use the LibTorch of the torch that Python has."""
import importlib.util
import json
import pathlib
import re
import subprocess
import sys
import zipfile

import pytest

from common_fixtures import BUILD, SOURCE

pytestmark = [pytest.mark.python, pytest.mark.long]

PROGRAMS = {"rollcall", *(f"rollcall-{name}" for name in ("train", "predict", "pack", "checkpoint", "report", "top", "bench-collectives"))}


@pytest.fixture(scope="module")
def wheel(launch_archive, tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run([SOURCE / "packaging" / "wheel", f"--build={BUILD}", f"--launch={launch_archive}", f"--output={folder}"], check=True,
                   capture_output=True)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def environment(wheel, tmp_path_factory):
    folder = with_torch(tmp_path_factory.mktemp("environment"))
    pip(folder, "install", "--no-index", "--no-deps", wheel)
    return folder


def with_torch(folder):
    """A virtual environment with torch where the tests' Python has it: beside the wheel as after `pip install torch`."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    site = next(folder.glob("lib/python3*/site-packages"))
    ours = torch_folder().resolve().parent
    for entry in ("torch", "nvidia", *(path.name for path in ours.glob("torch-*.dist-info"))):
        (site / entry).symlink_to(ours / entry)
    return folder


def torch_folder():
    return pathlib.Path(importlib.util.find_spec("torch").origin).parent


def pip(environment, *arguments):
    return subprocess.run([environment / "bin" / "python", "-m", "pip", "--disable-pip-version-check", *arguments], check=True,
                          capture_output=True, text=True).stdout


def run(*command, **options):
    variables = {"PATH": "/usr/bin:/bin", "HOME": str(options.get("cwd", "/")), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=100, env=variables, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


SMALL = ("--data=fake", "--model=resnet20", "--image-size=32", "--batch-size=8", "--max-steps=2", "--valid-epochs=0", "--progress=lines",
         "--run-name=small")


def test_its_tag_is_of_the_newest_symbols_that_it_needs(wheel):
    tool = pathlib.Path(sys.executable).parent / "auditwheel"
    without_this_machines = "--ldpaths=/nonexistent"  # libraries that a node may have in another version
    found = subprocess.run([tool, "show", "--json", without_this_machines, wheel], check=True, capture_output=True, text=True).stdout
    assert wheel.name.endswith(f"-py3-none-{json.loads(found)['sym_tag']}.whl")
    assert wheel.name.endswith("-manylinux_2_34_x86_64.whl")  # RHEL 9's


def test_it_needs_the_torch_of_the_build_and_brings_no_library_of_it(wheel):
    with zipfile.ZipFile(wheel) as members:
        names = members.namelist()
        metadata = members.read(next(name for name in names if name.endswith("/METADATA"))).decode()
    assert "Requires-Dist: torch==2.15.*" in metadata
    assert [name for name in names if re.search(r"lib(torch|c10|cudart|cupti|gomp)", name)] == []


def test_programs_run_by_their_names_in_bin(environment):
    for name in PROGRAMS:
        assert run(environment / "bin" / name, "--version").startswith(f"{name} ")
    report = json.loads(run(environment / "bin" / "rollcall", "doctor", "--no-bench", "--json"))
    assert {finding["check"] for finding in report["findings"]} >= {"versions", "scratch"}


def test_install_takes_the_plugin_for_the_slurm_that_runs_here(environment, tmp_path):
    plugins = sorted(environment.rglob("spank_rollcall.so"))
    assert "slurm-22.05" in {plugin.parent.name for plugin in plugins}
    (tmp_path / "slurm.conf").write_text("ClusterName=x\n")
    for plugin in plugins:
        (tmp_path / "srun").write_text(f"#!/bin/sh\necho {plugin.parent.name.replace('-', ' ')}.3\n")
        (tmp_path / "srun").chmod(0o755)
        planned = run("/usr/bin/env", f"PATH={tmp_path}:/usr/bin:/bin", environment / "bin" / "rollcall", "install", "--user", "--dry-run",
                      f"--slurm-conf={tmp_path}/slurm.conf", cwd=tmp_path)
        assert f" {plugin}\n" in planned or f" {plugin} " in planned


@pytest.mark.parametrize("command", [("rollcall-train",), ("rollcall", "train")])
def test_training_uses_the_installed_torch(environment, tmp_path, command):
    out = run(environment / "bin" / command[0], *command[1:], *SMALL, cwd=tmp_path)
    assert "progress    step 2 of 2\n" in out


def test_torch_may_be_of_the_environment_below(wheel, tmp_path):
    """--system-site-packages: torch does not lie beside the package."""
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "environment"], check=True)
    site = next(tmp_path.glob("environment/lib/python3*/site-packages"))
    (site / "below.pth").write_text(f"{torch_folder().parent}\n")
    pip(tmp_path / "environment", "install", "--no-index", "--no-deps", wheel)
    assert "progress    step 2 of 2\n" in run(tmp_path / "environment/bin/rollcall-train", *SMALL, cwd=tmp_path)


def as_of_an_older_version(wheel, folder):
    """Its programs under an earlier number, and a file that the next version does not have."""
    subprocess.run([sys.executable, "-m", "wheel", "unpack", f"--dest={folder}", wheel], check=True, capture_output=True)
    tree = next(folder.glob("rollcall-*"))
    information = next(tree.glob("*.dist-info"))
    metadata = information / "METADATA"
    metadata.write_text(re.sub(r"(?m)^Version: .*", "Version: 0.0.9", metadata.read_text()))
    information.rename(tree / "rollcall-0.0.9.dist-info")
    (tree / "rollcall" / "bin" / "rollcall-gone").touch()
    subprocess.run([sys.executable, "-m", "wheel", "pack", f"--dest-dir={folder}", tree], check=True, capture_output=True)
    return next(folder.glob("*.whl"))


def test_an_upgrade_replaces_all_files_and_trainings_go_on(wheel, tmp_path):
    folder = with_torch(tmp_path / "environment")
    pip(folder, "install", "--no-index", "--no-deps", as_of_an_older_version(wheel, tmp_path))
    train = [folder / "bin" / "rollcall-train", *SMALL]
    assert "progress    step 2 of 2\n" in run(*train, cwd=tmp_path)
    pip(folder, "install", "--upgrade", "--no-index", "--no-deps", wheel)
    assert "rollcall 0.0.9" not in " ".join(pip(folder, "list").split())
    assert sorted(path.name for path in folder.rglob("*rollcall-*.dist-info")) == [f"rollcall-{version_of(wheel)}.dist-info"]
    assert list(folder.rglob("rollcall-gone")) == []
    went_on = run(*train, "--max-steps=4", cwd=tmp_path)
    assert "step-00000002.h5" in went_on.partition("resumed from ")[2].partition("\n")[0] and "progress    step 4 of 4\n" in went_on


def version_of(wheel):
    return wheel.name.split("-")[1]


def test_nothing_is_left_when_it_is_uninstalled(environment):
    assert "rollcall" in pip(environment, "list")
    pip(environment, "uninstall", "-y", "rollcall")
    assert list(environment.rglob("*rollcall*")) == []
