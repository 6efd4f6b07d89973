"""Fixtures of several files. Those with a real Slurm have a throwaway cluster on this machine, made once a test session."""

import os
import pathlib
import shutil
import subprocess
import tempfile

import agents
import pytest

from minicluster import SLURM, SOURCE, Minicluster, Netcluster, missing_program

BUILD = pathlib.Path(os.environ.get("ROLLCALL_BUILD_DIR", SOURCE / "build" / "release"))


def pytest_collection_modifyitems(items):
    program = missing_program()
    for item in (item for item in items if program and item.get_closest_marker("slurm")):
        item.add_marker(pytest.mark.skip(reason=f"{program} is not installed"))


@pytest.fixture(scope="session")
def short_folder():
    """A folder with a short path: Slurm's sockets are in it, and a socket's path has at most 107 characters."""
    with tempfile.TemporaryDirectory(prefix="rc-", dir="/tmp") as folder:
        os.chmod(folder, 0o755)
        yield pathlib.Path(folder)


@pytest.fixture(scope="session")
def believed_folder():
    """Another one, on whose way nobody but root may write, unlike /tmp: site profiles are believed there."""
    if os.geteuid() != 0:
        pytest.skip("only root can make a folder that is believed")
    with tempfile.TemporaryDirectory(prefix="rc-", dir="/srv") as folder:
        os.chmod(folder, 0o755)
        yield pathlib.Path(folder)


def built(path):
    if not (BUILD / path).exists():
        pytest.skip(f"{BUILD / path} is not built")
    return BUILD / path


@pytest.fixture(scope="session")
def plugin():
    return built(pathlib.Path("spank_plugin", SLURM, "spank_rollcall.so"))


@pytest.fixture(scope="session")
def rollcall():
    return built("runtime/rollcall")


@pytest.fixture(scope="session")
def rollcall_train():
    return built("trainer/rollcall-train")


@pytest.fixture(scope="session")
def launch_archive(tmp_path_factory):
    """The file that packaging/launch-archive makes."""
    zig = subprocess.run([SOURCE / "scripts" / "setup", "--print-zig"], capture_output=True, text=True, check=True).stdout.strip()
    if not pathlib.Path(zig).exists():
        pytest.skip("zig is not installed (scripts/setup --packaging)")
    folder = tmp_path_factory.mktemp("archive")
    made = subprocess.run([SOURCE / "packaging" / "launch-archive", f"--output={folder}"], capture_output=True, text=True, timeout=1400)
    assert made.returncode == 0, made.stderr
    (file,) = folder.iterdir()
    return file


@pytest.fixture(scope="session")
def cluster(short_folder, plugin):
    """Four nodes with four CPUs each, with the plugin."""
    made = Minicluster(short_folder / "c", f"--plugin={plugin}").start()
    yield made
    made.stop()


@pytest.fixture(scope="module")
def network(short_folder, plugin):
    """Four nodes that are hosts of their own, which reach each other over ib0 alone, and a login host."""
    made = Netcluster(short_folder / "n", f"--plugin={plugin}")
    started = made.script(*made.slurm, *made.options, "start", check=False)
    if started.returncode == 69 and ("needs root" in started.stderr or "namespaces" in started.stderr):
        pytest.skip(started.stderr.strip())
    assert started.returncode == 0, started.stderr
    yield made
    made.stop()


@pytest.fixture(scope="module")
def mpirun(short_folder):
    """mpirun("-np", "4", ...): the words of a command that starts ranks on this machine."""
    version = subprocess.run(["mpirun", "--version"], capture_output=True, text=True).stdout if shutil.which("mpirun") else ""
    if "Open MPI" not in version:
        pytest.skip("Open MPI's mpirun is not installed (package openmpi-bin)")
    # Copies between processes by ptrace are forbidden in most containers. Two that begin at once would both make Open MPI's folder of
    # this user in /tmp, and one of them would fail.
    def command(*words):
        return ["mpirun", "--allow-run-as-root", "--oversubscribe", "--mca", "btl_vader_single_copy_mechanism", "none",
                "--mca", "orte_tmpdir_base", tempfile.mkdtemp(dir=short_folder), *map(str, words)]
    return command


@pytest.fixture(scope="session")
def digits(tmp_path_factory):
    """The handwritten digits as an image tree."""
    folder = tmp_path_factory.mktemp("data") / "digits"
    subprocess.run([SOURCE / "scripts" / "make-digits", folder], check=True, capture_output=True)
    return folder


@pytest.fixture
def nodes(tmp_path):
    """Makes `agents.Nodes`, and ends all that is left of them."""
    made = []

    def make(*options):
        made.append(agents.Nodes(tmp_path, *options))
        return made[-1]
    yield make
    for each in made:
        each.close()
