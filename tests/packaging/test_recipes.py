"""What others install rollcall with: module files, recipes for EasyBuild, Spack and Apptainer. The last two programs are rarely to be had
where this runs: their recipes are compared with the project too."""
import contextlib
import itertools
import os
import pathlib
import re
import shutil
import subprocess
import sys
import types

import pytest

from common_fixtures import BUILD, built

pytestmark = pytest.mark.python
ROOT = pathlib.Path(__file__).parents[2]
PACKAGING = ROOT / "packaging"
CMAKE = (ROOT / "CMakeLists.txt").read_text()
VERSION = re.search(r"^project\(rollcall VERSION ([\d.]+)", CMAKE, re.M)[1]
LMOD = pathlib.Path("/usr/share/lmod/lmod")
ENVIRONMENT_MODULES = sorted(pathlib.Path("/usr/lib").glob("*/modulecmd.tcl"))


def program(name):
    found = shutil.which(name) or shutil.which(name, path=str(pathlib.Path(sys.executable).parent))
    return found or pytest.skip(f"{name} is not installed")


def install(folder, *components):
    for component in components:
        subprocess.run(["cmake", "--install", BUILD, "--component", component, "--prefix", folder], check=True, capture_output=True)
    return folder


# --- module files

def module_command(kind):
    """What defines `module` in a shell."""
    if kind == "Lmod":
        return f"source {LMOD}/init/bash" if LMOD.exists() else pytest.skip("Lmod is not installed")
    if not ENVIRONMENT_MODULES:
        pytest.skip("Environment Modules is not installed")
    return f'module() {{ eval "$(tclsh {ENVIRONMENT_MODULES[0]} bash "$@")"; }}'


@pytest.fixture(scope="module")
def moved(tmp_path_factory):
    built("runtime/rollcall")
    folder = tmp_path_factory.mktemp("modules")
    return install(folder / "first", "launch").rename(folder / "second")


@pytest.mark.parametrize(("kind", "language"), [("Lmod", "Lua"), ("Lmod", "Tcl"), ("Environment Modules", "Tcl")])
@pytest.mark.parametrize("before", [None, "/opt/x/share/man"])
def test_a_module_sets_paths_of_the_moved_folder_and_takes_them_back(moved, tmp_path, kind, language, before):
    modules = shutil.copytree(moved, tmp_path / "here") / "share" / "rollcall" / "modulefiles"
    if language == "Tcl":
        (modules / "rollcall" / f"{VERSION}.lua").unlink()
    shell = f"""{module_command(kind)}
        show() {{ for name in PATH MANPATH LD_LIBRARY_PATH; do echo "$name=${{!name-}}"; done; }}
        module use {modules}; module load rollcall/{VERSION}; show; rollcall --version; module unload rollcall; show"""
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), **({"MANPATH": before} if before else {})}
    done = subprocess.run(["bash", "--norc", "-c", shell], env=environment, capture_output=True, text=True, check=True)
    path, pages, libraries, version, *after = done.stdout.splitlines()
    assert path == f"PATH={tmp_path}/here/bin:/usr/bin:/bin" and libraries == "LD_LIBRARY_PATH="
    assert pages.startswith(f"MANPATH={tmp_path}/here/share/man:" + (f"{before}:" if before else ""))
    assert pages.endswith(":"), "man finds the system's pages no more"
    assert version == f"rollcall {VERSION}"
    assert after == ["PATH=/usr/bin:/bin", f"MANPATH={before or ''}", "LD_LIBRARY_PATH="]


@pytest.mark.parametrize(("kind", "name"), [("Lmod", "rollcall.lua"), ("Environment Modules", "rollcall.tcl")])
def test_a_copy_of_a_module_file_elsewhere_says_what_it_lacks(tmp_path, kind, name):
    (tmp_path / "rollcall").mkdir()
    shutil.copy(PACKAGING / "modules" / name, tmp_path / "rollcall" / (VERSION + ".lua" * (kind == "Lmod")))
    shell = f"{module_command(kind)}; module use {tmp_path}; module load rollcall; echo $PATH"
    done = subprocess.run(["bash", "--norc", "-c", shell], env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}, capture_output=True, text=True)
    assert "is outside of the installation; try setting `root` in it" in " ".join(done.stderr.split())
    assert done.stdout == "/usr/bin:/bin\n"


# --- recipes

@pytest.mark.parametrize("name", ["easybuild/rollcall.eb", "spack/package.py"])
def test_a_recipe_has_the_projects_version(name):
    """scripts/update-pages writes it."""
    assert re.findall(r"""version(?:\(| = )["'](\d[\d.]*)""", (PACKAGING / name).read_text())[0] == VERSION


def test_easybuild_has_all_that_the_recipe_depends_on(tmp_path):
    """A dry run with --robot: each dependency has a recipe, and theirs have too."""
    eb = program("eb")
    shutil.copy(PACKAGING / "easybuild" / "rollcall.eb", tmp_path)
    if not LMOD.exists():
        pytest.skip("Lmod is not installed")
    environment = {"PATH": f"{pathlib.Path(eb).parent}:/usr/bin:/bin", "HOME": str(tmp_path), "LMOD_CMD": f"{LMOD}/libexec/lmod"}
    done = subprocess.run([eb, "rollcall.eb", "--dry-run", "--robot", f"--prefix={tmp_path}", "--allow-use-as-root-and-accept-consequences"],
                          cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"(module: rollcall/{VERSION}-GCCcore-13.3.0)" in done.stdout


def test_spack_reads_the_recipe(tmp_path):
    """In a repository as the page has it, which the user's list does not name."""
    spack = program("spack")
    subprocess.run([spack, "repo", "create", "rollcall-repo", "rollcall"], cwd=tmp_path, check=True, capture_output=True)
    repository = tmp_path / "rollcall-repo" / "spack_repo" / "rollcall"
    shutil.copytree(PACKAGING / "spack", repository / "packages" / "rollcall")
    (tmp_path / "repos.yaml").write_text(f"repos:\n  rollcall: {repository}\n")
    environment = {**os.environ, "HOME": str(tmp_path), "SPACK_USER_CACHE_PATH": str(tmp_path / "cache"), "SPACK_DISABLE_LOCAL_CONFIG": "1"}
    done = subprocess.run([spack, "-C", tmp_path, "info", "rollcall"], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert re.search(rf"^Preferred version:\s+{re.escape(VERSION)}\s", done.stdout, re.M), done.stdout


class Spec:
    """As Spack's: which variants are on; a dependency is a folder."""

    def __init__(self, *variants):
        self.variants = variants
        self.prefix = self

    def satisfies(self, text):
        return text[1:] in self.variants

    def __getitem__(self, name):
        return Spec()


@pytest.fixture
def spack_package(monkeypatch):
    """The class in package.py, with stand-ins of what it imports from Spack."""
    spack = types.ModuleType("spack.package")
    for name in ("license", "version", "variant", "depends_on", "conflicts"):
        setattr(spack, name, lambda *arguments, **options: None)
    spack.when = lambda condition: contextlib.nullcontext()
    spack.join_path = os.path.join
    cmake = types.ModuleType("cmake")
    py_torch = types.SimpleNamespace(cmake_prefix_paths=["torch/share/cmake"])
    cmake.CMakePackage = type("CMakePackage", (), {"define": lambda self, *pair: pair, "__getitem__": lambda self, name: py_torch})
    for name in ("spack", "spack_repo", "spack_repo.builtin", "spack_repo.builtin.build_systems"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setitem(sys.modules, "spack.package", spack)
    monkeypatch.setitem(sys.modules, "spack_repo.builtin.build_systems.cmake", cmake)
    names = {}
    exec((PACKAGING / "spack" / "package.py").read_text(), names)
    return names["Rollcall"]()


def test_spack_gives_cmake_options_that_it_knows(spack_package):
    known = set(re.findall(r"^option\((\w+)", CMAKE, re.M))
    calls = CMAKE + (ROOT / "trainer" / "CMakeLists.txt").read_text()
    packages = set(re.findall(r"find_package\((\w+)", calls))
    known |= {f"CMAKE_DISABLE_FIND_PACKAGE_{name}" for name in packages} | {f"{name}_ROOT" for name in packages}
    variants = ("trainer", "cuda", "mpi", "ucx")
    for on in itertools.product([False, True], repeat=4):
        spack_package.spec = Spec(*itertools.compress(variants, on))
        given = dict(spack_package.cmake_args())
        assert set(given) - known == set()
        assert (given["ROLLCALL_TRAINER"], given["ROLLCALL_CUDA"]) == on[:2]
        assert [not given[f"CMAKE_DISABLE_FIND_PACKAGE_{name}"] for name in ("MPI", "UCX")] == list(on[2:])
        assert given.get("LibTorch_ROOT") == ("torch/share/cmake/../.." if on[0] else None)


def test_sections_of_the_apptainer_definition_are_shell_scripts():
    text = (PACKAGING / "apptainer" / "rollcall.def").read_text()
    sections = dict(re.findall(r"^%(\w+)\n((?:    .*\n|\n)*)", text, re.M))
    assert set(sections) == {"files", "post", "environment", "test", "help"}
    for name in ("post", "environment", "test"):
        done = subprocess.run([program("shellcheck"), "--shell=sh", "-"], input=sections[name], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout
