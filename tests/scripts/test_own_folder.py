"""scripts/own-folder empties or removes only folders that a rollcall script created, and no other script removes folders recursively."""
import os
import pathlib
import re
import shutil
import subprocess

import pytest

pytestmark = pytest.mark.python
ROOT = pathlib.Path(os.environ.get("ROLLCALL_SOURCE_DIR", pathlib.Path(__file__).parents[2]))
MARK = ".made-by-rollcall"


def own_folder(action, folder):
    return subprocess.run([ROOT / "scripts" / "own-folder", action, "trial", folder], capture_output=True, text=True, timeout=60, check=False)


def everything_below(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_own_folders_are_emptied_and_removed(tmp_path):
    folder = tmp_path / "a" / "-rf"
    assert own_folder("empty", folder).returncode == 0
    (folder / "x" / "y").mkdir(parents=True)
    (folder / "x" / "file").touch()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "thesis").touch()
    (folder / "link").symlink_to(tmp_path / "elsewhere")
    assert own_folder("make", folder).returncode == 0
    assert (folder / "x" / "file").exists()
    assert own_folder("empty", folder).returncode == 0
    assert everything_below(folder) == [MARK]
    (folder / "x").mkdir()
    assert own_folder("remove", folder).returncode == 0
    assert own_folder("remove", folder).returncode == 0  # is not there
    assert everything_below(tmp_path) == ["a", "elsewhere", "elsewhere/thesis"]


def a_folder(path):
    path.mkdir()
    (path / "thesis").touch()


def a_link_to_its_own(path):
    own_folder("make", path.with_suffix(".own"))
    (path.with_suffix(".own") / "thesis").touch()
    path.symlink_to(path.with_suffix(".own"))


def a_mark_that_is_a_link(path):
    a_folder(path)
    own_folder("make", path.with_suffix(".own"))
    (path / MARK).symlink_to(path.with_suffix(".own") / MARK)


def anothers_with_a_mark(path):
    if os.geteuid() != 0:
        pytest.skip("only root can make a folder of another user")
    own_folder("make", path)
    (path / "thesis").touch()
    os.chown(path, 4711, 4711)


def a_mark_of_anothers(path):
    if os.geteuid() != 0:
        pytest.skip("only root can make a file of another user")
    own_folder("make", path)
    (path / "thesis").touch()
    os.chown(path / MARK, 4711, 4711)


@pytest.mark.parametrize("made", [a_folder, a_link_to_its_own, a_mark_that_is_a_link, anothers_with_a_mark, a_mark_of_anothers,
                                  pathlib.Path.touch])
@pytest.mark.parametrize("action", ["make", "empty", "remove"])
def test_foreign_folders_are_kept_and_reported(tmp_path, made, action):
    folder = tmp_path / "theirs"
    made(folder)
    before = everything_below(tmp_path)
    done = own_folder(action, folder)
    assert done.returncode == 73
    assert re.fullmatch(rf"rollcall: trial: {re.escape(str(folder))}: .*; try .*\n", done.stderr), done.stderr
    assert everything_below(tmp_path) == before


@pytest.mark.parametrize("action", ["make", "empty", "remove"])
def test_an_unlistable_folder_is_rejected(tmp_path, action):
    folder = tmp_path / "theirs"
    a_folder(folder)
    folder.chmod(0o300)
    as_a_user = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"] if os.geteuid() == 0 else []  # root, too, is refused
    done = subprocess.run([*as_a_user, ROOT / "scripts" / "own-folder", action, "trial", folder], capture_output=True, text=True, timeout=60,
                          check=False)
    folder.chmod(0o700)
    assert done.returncode == 73
    assert done.stderr == f"rollcall: trial: {folder}: cannot be listed; try naming another folder\n"
    assert everything_below(folder) == ["thesis"]


@pytest.fixture
def quickstart(tmp_path):
    """scripts/quickstart --dir=DIR where all is built already, and the cluster takes no job."""
    scripts, programs = tmp_path / "repository" / "scripts", tmp_path / "programs"
    scripts.mkdir(parents=True)
    programs.mkdir()
    for name in ("quickstart", "own-folder", "stages.sh"):
        shutil.copy(ROOT / "scripts" / name, scripts)
    for path, text in ((scripts / "setup", ""), (scripts / "make-digits", ""), (programs / "cmake", ""),
                       (scripts / "minicluster", "[ $2 != run ]")):
        path.write_text(f"#!/bin/bash\n{text}\n")
        path.chmod(0o755)
    environment = os.environ | {"PATH": f"{programs}:{os.environ['PATH']}"}
    return lambda folder: subprocess.run([scripts / "quickstart", f"--dir={folder}"], env=environment, capture_output=True, text=True,
                                         timeout=60, check=False)


def test_quickstart_keeps_a_foreign_scratch_folder(tmp_path, quickstart):
    home = tmp_path / "home"
    (home / "scratch").mkdir(parents=True)
    (home / "scratch" / "thesis").touch()
    done = quickstart(home)
    assert (home / "scratch" / "thesis").exists()
    assert done.returncode == 73 and done.stdout == ""
    assert done.stderr == (f"rollcall: quickstart: {home}/scratch: holds files that this script did not create; "
                           "try naming another folder, or removing it yourself\n")


def test_quickstart_empties_only_its_own_scratch_folder(tmp_path, quickstart):
    home = tmp_path / "home"
    home.mkdir()
    (home / "thesis").touch()
    quickstart(home)
    (home / "scratch" / "of-the-last-run").touch()
    quickstart(home)
    assert everything_below(home) == ["scratch", f"scratch/{MARK}", "thesis"]


# What a process made itself, under a name that nobody chose; what lies in a folder that own-folder or another test keeps.
RECURSIVE = {
    "scripts/setup": 3,  # of mktemp
    "scripts/second-slurm": 1,  # parts of what it has just unpacked
    "scripts/image_tree.py": 1,  # of mkdtemp
    "scripts/site": 1,  # of mktemp
    "site_config/rollcall-epilog.sh": 1,  # as the job's user (tests/site_config/test_epilog.py)
    "benchmarks/gpu/bundle.py": 2,  # below a bundle (refuse_what_is_no_bundle)
    "benchmarks/checkpoint/compare_savers.py": 1,  # below a TemporaryDirectory
}


def test_no_other_script_removes_folders_recursively():
    removal = re.compile(r"\brm (?:-\w+ )*-\w*r|\brmtree\(|\bremove_all\(|-exec rm|-delete$", re.M)
    found = {}
    for path in subprocess.run(["git", "ls-files", "scripts", "benchmarks", "sbatch_templates", "site_config"], cwd=ROOT, capture_output=True,
                               text=True, check=True).stdout.split():
        removals = removal.findall((ROOT / path).read_text(errors="replace"))
        found |= {path: len(removals)} if removals else {}
    assert found == RECURSIVE
