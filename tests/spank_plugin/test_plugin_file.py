"""The library loaded into srun and slurmd is small and hardened, and depends only on libc and Slurm."""

import os
import pathlib
import re
import shutil
import subprocess

import pytest

pytestmark = pytest.mark.python
BUILD = pathlib.Path(os.environ["ROLLCALL_BUILD_DIR"])
PLUGINS = sorted((BUILD / "spank_plugin").rglob("spank_rollcall.so"))
MOST_BYTES = 200_000
NEWEST_GLIBC = (2, 28)  # RHEL 8's
EXPORTED = {
    "plugin_name", "plugin_type", "plugin_version", "spank_plugin_version", "slurm_spank_init", "slurm_spank_init_post_opt",
    "slurm_spank_local_user_init", "slurm_spank_user_init", "slurm_spank_task_init", "slurm_spank_task_exit", "slurm_spank_exit"}


def table(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, "LC_ALL": "C"}).stdout


def symbols(path):
    """Those of the dynamic table: name, version, whether it is defined here, whether it may be missing."""
    for line in table("readelf", "--dyn-syms", "-W", path).splitlines():
        words = line.split()
        if len(words) >= 8 and words[0].rstrip(":").isdigit() and words[7]:
            name, _, version = words[7].partition("@")
            yield name, version.lstrip("@"), words[6] != "UND", words[4] == "WEAK"


def broken_rules(path):
    dynamic, segments, sections = (table("readelf", "-W", option, path) for option in ("-d", "-l", "-S"))
    found = list(symbols(path))
    wanted = {name for name, _, defined, weak in found if not defined and not weak}
    glibc = {version for _, version, defined, _ in found if not defined and version.startswith("GLIBC_")}
    foreign = {name for name, version, defined, weak in found
               if not defined and not version and not weak and not re.match("(slurm|spank)_", name)}
    rules = {
        "links nothing but libc": re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic) == ["libc.so.6"],
        "needs no symbol newer than glibc 2.28": all(
            tuple(int(part) for part in version[6:].split(".")) <= NEWEST_GLIBC for version in glibc),
        "wants nothing else of its host than Slurm's": not foreign,
        "shows SPANK's symbols alone": {name for name, _, defined, _ in found if defined} == EXPORTED,
        "has a stack protector": "__stack_chk_fail" in wanted,
        "has _FORTIFY_SOURCE": any(name.endswith("_chk") for name in wanted),
        "binds all at once": "BIND_NOW" in dynamic,
        "has its relocations read-only": "GNU_RELRO" in segments,
        "has no text that is written": "TEXTREL" not in dynamic,
        "has no stack that is executed": re.search(r"GNU_STACK.* RW +0x", segments) is not None,
        "has no memory that is written and executed": " RWE " not in segments,
        "is stripped": ".symtab" not in sections,
        "has at most 200 KB": path.stat().st_size <= MOST_BYTES,
        "has no path to libraries": "RPATH" not in dynamic and "RUNPATH" not in dynamic,
    }
    return [rule for rule, kept in rules.items() if not kept]


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
