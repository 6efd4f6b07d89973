"""The library loaded into srun and slurmd is small and hardened, and depends only on libc and Slurm."""

import os
import pathlib
import shutil
import subprocess

import pytest

from plugin_rules import MOST_BYTES, broken_rules

pytestmark = pytest.mark.python
BUILD = pathlib.Path(os.environ["ROLLCALL_BUILD_DIR"])
PLUGINS = sorted((BUILD / "spank_plugin").rglob("spank_rollcall.so"))


def test_a_plugin_library_is_built():
    assert PLUGINS


@pytest.mark.parametrize("path", PLUGINS, ids=[str(path.relative_to(BUILD)) for path in PLUGINS])
def test_the_plugin_library_obeys_all_rules(path):
    assert broken_rules(path) == []


def test_broken_rules_of_a_library_are_named(tmp_path):
    compiler = shutil.which("g++") or shutil.which("clang++")
    source = tmp_path / "bad.cpp"
    source.write_text('#include <string>\n#include <cmath>\nextern "C" { void elsewhere(); double other(double x, std::string& s) '
                      '{ char local[64]; s += std::to_string(x); elsewhere(); return std::lgamma(x) + local[int(x) & 63]; } }\n')
    library = tmp_path / "bad.so"
    subprocess.run([compiler, "-O1", "-fPIC", "-shared", "-fno-stack-protector", "-U_FORTIFY_SOURCE", "-Wl,-z,lazy,-z,norelro,-z,execstack",
                    "-Wl,-rpath,/opt", "-Wl,--disable-new-dtags", "-o", library, source, "-lm"], check=True)
    with library.open("ab") as file:
        file.write(b"x" * MOST_BYTES)
    assert set(broken_rules(library)) >= {
        "links nothing but libc", "wants nothing else of its host than Slurm's", "shows SPANK's symbols alone",
        "has a stack protector", "has _FORTIFY_SOURCE", "binds all at once", "has its relocations read-only",
        "has no stack that is executed", "is stripped", "has at most 200 KB", "has no path to libraries"}


# ---------------------------------------------------------------- a file of another name


@pytest.mark.parametrize("name, is_it", [("spank_rollcall.so", True), ("spank_rollcall-22.05.so", True), ("anything.so", True),
                                         ("spank_other.so", False), ("absent.so", False)])
def test_the_plugin_is_recognised_by_content_not_by_its_file_name(tmp_path, name, is_it):
    """The profile and its locks hold for `rollcall` whatever the plugin's file is called."""
    plugin = tmp_path / name
    if name == "spank_other.so":
        source = tmp_path / "other.c"
        source.write_text('const char plugin_name[] = "rollcaller"; const char plugin_type[] = "spank";\n')
        subprocess.run([shutil.which("gcc") or "clang", "-shared", "-fPIC", "-o", plugin, source], check=True)
    elif is_it:
        shutil.copy(PLUGINS[0], plugin)
    (tmp_path / "site.toml").write_text('threads = "3"\n[site]\nname = "here"\nlocked = ["threads"]\n')
    (tmp_path / "plugstack.conf").write_text(f"optional {plugin} config={tmp_path}/site.toml config_owner=any\n")
    (tmp_path / "slurm.conf").write_text(f"PlugStackConfig={tmp_path}/plugstack.conf\n")
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "SLURM_CONF": str(tmp_path / "slurm.conf")}
    shown = subprocess.run([BUILD / "runtime" / "rollcall", "--print-config"], capture_output=True, text=True, env=environment)
    assert shown.returncode == 0, shown.stderr
    assert (f"{tmp_path}/site.toml" in shown.stdout) == is_it, shown.stdout
