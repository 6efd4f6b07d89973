"""`cmake --install` creates a relocatable folder, with the components launch, plugin, trainer, tools and doc."""
import json
import os
import pathlib
import re
import subprocess

import pytest

pytestmark = pytest.mark.python
BUILD = pathlib.Path(os.environ["ROLLCALL_BUILD_DIR"])
SOURCE = pathlib.Path(os.environ["ROLLCALL_SOURCE_DIR"])
PROGRAMS = {"launch": {"rollcall"}, "plugin": set(), "trainer": {"rollcall-train", "rollcall-predict"},
            "tools": {f"rollcall-{name}" for name in ("pack", "checkpoint", "report", "top", "bench-collectives")}, "doc": set()}
# Every node has these.
OF_THE_C_LIBRARY = {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2"}


@pytest.fixture(scope="module")
def moved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("installed")
    for component in PROGRAMS:
        subprocess.run(["cmake", "--install", BUILD, "--component", component, "--prefix", folder / "first" / component], check=True,
                       capture_output=True)
    return (folder / "first").rename(folder / "second")


def files(folder):
    return [path for path in sorted(folder.rglob("*")) if path.is_file()]


def run(program, *arguments):
    return subprocess.run([program, *arguments], env={"PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("component", PROGRAMS)
def test_installed_programs_run_after_a_move(moved, component):
    programs = {path.name for path in files(moved / component / "bin")}
    assert programs == PROGRAMS[component]
    for name in programs:
        assert run(moved / component / "bin" / name, "--version").startswith(f"{name} ")


def test_programs_that_share_libraries_lie_apart_from_their_links(moved):
    """Packages put the libraries beside them, so that a run path of $ORIGIN is enough."""
    for component in ("trainer", "tools"):
        for name in PROGRAMS[component]:
            link = moved / component / "bin" / name
            assert link.is_symlink() and str(link.readlink()) == f"../lib/rollcall/trainer/{name}"


def test_version_as_json_names_what_is_installed_beside_a_program(moved):
    first = json.loads(run(moved / "launch/bin/rollcall", "--version", "--json"))
    headers = re.search(r"^Slurm_INCLUDE_DIR:\w+=(.*)$", (BUILD / "CMakeCache.txt").read_text(), re.MULTILINE)[1]
    number = re.search(r"SLURM_VERSION_NUMBER 0x(..)(..)(..)", (pathlib.Path(headers) / "slurm/slurm_version.h").read_text())
    assert first["slurm"] == []  # the plugin is a component of its own
    built = json.loads(run(BUILD / "runtime/rollcall", "--version", "--json"))
    assert built["slurm"] == ["{}.{:02}.{}".format(*(int(part, 16) for part in number.groups()))]
    second = json.loads(run(moved / "trainer/bin/rollcall-train", "--version", "--json"))
    for name in ("version", "compiler", "architecture"):
        assert first[name] == second[name]
    assert f"(LibTorch {second['libtorch']})" in run(moved / "trainer/bin/rollcall-train", "--version")
    assert second["features"]["image_formats"][:2] == ["JPEG", "PNG"] and not second["features"]["mpi"]  # it is of component tools


def test_installed_files_contain_no_build_path(moved):
    """But for LibTorch's folder, which the programs that load it name."""
    for path in files(moved):
        data = path.read_bytes()
        for folder in (BUILD, SOURCE):
            assert re.search(re.escape(str(folder).encode()) + rb"\b", data) is None, f"{path.relative_to(moved)} has {folder}"


def test_the_launch_component_needs_only_the_c_library(moved):
    needed = {}
    for path in files(moved / "launch") + files(moved / "plugin"):
        if path.open("rb").read(4) == b"\x7fELF":
            table = subprocess.run(["readelf", "-d", path], capture_output=True, text=True, check=True).stdout
            assert "PATH" not in table
            needed[path.name] = set(re.findall(r"\(NEEDED\).*\[(.*)\]", table))
    assert {"rollcall", "spank_rollcall.so"} <= set(needed)
    assert set().union(*needed.values()) <= OF_THE_C_LIBRARY, needed


def test_each_component_installs_its_files(moved):
    launch, doc = moved / "launch", moved / "doc"
    for name in ("share/rollcall/sbatch_templates/run.sbatch", "share/rollcall/site_config/generic.toml", "share/man/man1/rollcall.1",
                 "share/man/man8/rollcall-spank.8"):
        assert (launch / name).is_file() and (launch / name).stat().st_mode & 0o022 == 0, name
    for name in ("bash-completion/completions/rollcall", "zsh/site-functions/_rollcall", "fish/vendor_completions.d/rollcall.fish"):
        assert (launch / "share" / name).is_file() and (launch / "share" / name).stat().st_mode & 0o133 == 0, name
    for shell in ("bash", "zsh", "fish"):
        assert "--host-template" in run(launch / "bin/rollcall", "completion", shell)
    (plugin,) = (moved / "plugin").rglob("spank_rollcall.so")
    assert re.fullmatch(r"rollcall/slurm-\d\d\.\d\d", "/".join(plugin.parts[-3:-1]))
    for component in ("trainer", "tools"):
        assert {f"{name}.1" for name in PROGRAMS[component]} == {path.name for path in files(moved / component / "share/man")}
    for name in ("README.md", "LICENSE", "docs/index.md", "docs/administrator/install.md"):
        assert (doc / "share/doc/rollcall" / name).is_file(), name
