"""Every profile in site_config/ against its own claims: it loads, it is recognised by its names, and each value has a source."""
import fnmatch
import json
import os
import pathlib
import re
import subprocess
import tomllib

import pytest

pytestmark = pytest.mark.python
ROOT = pathlib.Path(os.environ.get("ROLLCALL_SOURCE_DIR", pathlib.Path(__file__).parents[2]))
BUILD = pathlib.Path(os.environ.get("ROLLCALL_BUILD_DIR", ROOT / "build" / "release"))
ROLLCALL = BUILD / "runtime" / "rollcall"
PROFILES = sorted((ROOT / "site_config").glob("*.toml"))
SITES = {"juwels", "juwelsbooster", "jurecadc", "jusuf", "jedi", "jupiter", "alps", "lumi", "frontier", "perlmutter",
         "deltaai", "leonardo", "jean-zay", "marenostrum5", "snellius", "puhti", "roihu"}
NEVER_RECOGNISED = {"generic", "minicluster"}


def section(path):
    return tomllib.loads(path.read_text())["site"]


def print_config(**variables):
    if not ROLLCALL.exists():
        pytest.skip(f"{ROLLCALL} is not built")
    dropped = ("ROLLCALL_", "SLURM", "SYSTEMNAME")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
    clean["XDG_CONFIG_HOME"] = "/nonexistent"
    result = subprocess.run([ROLLCALL, "--print-config", "--json"], env={**clean, **variables}, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def test_every_site_has_a_profile():
    assert {path.stem for path in PROFILES} == SITES | NEVER_RECOGNISED


@pytest.mark.parametrize("path", PROFILES, ids=lambda path: path.stem)
def test_a_profile_loads_and_gives_a_source_for_each_value(path):
    shown = print_config(ROLLCALL_SITE_CONFIG=str(path))
    assert shown["site"] == {"name": path.stem, "file": str(path), "recognised_by": "ROLLCALL_SITE_CONFIG"}
    given = {f"{table}.{key}" for table, keys in tomllib.loads(path.read_text()).items() if table != "site" for key in keys}
    assert {name for name in given if shown[name]["origin"] == str(path)} == given
    for line in path.read_text().splitlines():
        if re.match(r"[\w-]+ *=", line):
            assert re.search(r"# (source|unverified): \S", line), f"{path.name}: {line}: lacks its source"


@pytest.mark.parametrize("path", PROFILES, ids=lambda path: path.stem)
def test_the_section_that_names_the_site_comes_first(path):
    tables = re.findall(r"^\[.*", path.read_text(), re.M)
    assert tables[0] == "[site]" and section(path)["name"] == path.stem


@pytest.mark.parametrize("path", PROFILES, ids=lambda path: path.stem)
def test_a_profile_is_recognised_by_each_of_its_names(path):
    if pathlib.Path("/etc/rollcall/site.toml").exists() or pathlib.Path("/etc/FZJ/systemname").exists():
        pytest.skip("this machine has a site of its own")
    names = [{"SYSTEMNAME": name} for name in section(path).get("systemname", [])]
    names += [{"SLURM_CLUSTER_NAME": name} for name in section(path).get("cluster", [])]
    assert bool(names) == (path.stem not in NEVER_RECOGNISED)
    for variables in names:
        found = print_config(**variables)["site"]
        assert (found["name"], pathlib.Path(found["file"]).name) == (path.stem, path.name)
        (value,) = variables.values()
        assert value in found["recognised_by"]


def test_no_name_belongs_to_two_sites():
    for key in ("systemname", "cluster"):
        names = [name for path in PROFILES for name in section(path).get(key, [])]
        assert len(names) == len(set(names))


def test_a_host_name_belongs_to_one_site():
    patterns = {path.stem: section(path).get("hosts", []) for path in PROFILES}
    for site, own in patterns.items():
        for pattern in own:
            host = pattern.replace("*", "0017")
            assert [name for name, theirs in patterns.items() if any(fnmatch.fnmatch(host, p) for p in theirs)] == [site]


def test_a_systemname_that_is_a_path_is_ignored():
    assert "site" not in print_config(SYSTEMNAME="../../../etc/passwd")


def test_installed_programs_find_the_installed_profiles(tmp_path):
    """PREFIX/bin/rollcall reads PREFIX/share/rollcall/site_config, wherever PREFIX is."""
    if not ROLLCALL.exists():
        pytest.skip(f"{ROLLCALL} is not built")
    (tmp_path / "bin").mkdir()
    folder = tmp_path / "share" / "rollcall" / "site_config"
    folder.mkdir(parents=True)
    program = tmp_path / "bin" / "rollcall"
    program.write_bytes(ROLLCALL.read_bytes())
    program.chmod(0o755)
    (folder / "here.toml").write_text('[site]\nname = "here"\nsystemname = "here"\n[port]\nrange = "20000-20099"\n')
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("ROLLCALL_", "SLURM"))}
    environment = {**clean, "SYSTEMNAME": "here", "PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin"}
    shown = subprocess.run(["rollcall", "--print-config"], env=environment, capture_output=True, text=True, check=True).stdout
    if not pathlib.Path("/etc/rollcall/site.toml").exists():
        assert f"site profile: here, recognised by SYSTEMNAME=here, {folder.resolve()}/here.toml" in shown
        assert "20000-20099" in shown
