"""`rollcall install --site` on the root of a node's image: whatever its links name, and whatever lies there already."""

import os
import re
import shutil

import pytest

from minicluster import SOURCE
from test_install import site, tree

pytestmark = [pytest.mark.slurm, pytest.mark.long]

PLACED = re.compile(r"^optional /opt/\d\d\.\d\d-[0-9a-f]{8}/spank_rollcall.so", re.M)


@pytest.fixture
def image(tmp_path, plugin):
    """The root of a node's image, with a Slurm configured and the plugin in place."""
    (tmp_path / "etc" / "slurm").mkdir(parents=True)
    (tmp_path / "etc" / "slurm" / "slurm.conf").write_text("ClusterName=image\n")
    (tmp_path / "opt").mkdir()
    shutil.copy(plugin, tmp_path / "opt" / "spank_rollcall.so")
    return tmp_path


def test_site_install_adds_line_and_profile_and_uninstall_removes_them(rollcall, image):
    plugstack = image / "etc" / "slurm" / "plugstack.conf"
    plugstack.write_text("optional /opt/other.so")  # no line feed at the end
    before = tree(image / "etc")
    options = ["--site", f"--root={image}", "--plugin=/opt/spank_rollcall.so"]
    install = ["install", *options, f"--profile={SOURCE}/site_config/minicluster.toml"]
    dry = site(rollcall, *install, "--dry-run")
    assert dry.returncode == 0 and "would write" in dry.stdout and tree(image / "etc") == before
    done = site(rollcall, *install)
    assert done.returncode == 0, done.stderr
    line = re.search(r"^optional (/opt/\d\d\.\d\d-[0-9a-f]{8}/spank_rollcall.so) config=/etc/rollcall/site.toml\n", plugstack.read_text(), re.M)
    assert (image / line[1].lstrip("/")).read_bytes() == (image / "opt" / "spank_rollcall.so").read_bytes()
    assert plugstack.read_text().endswith("\noptional /opt/other.so")  # ours first: others may enter containers in their hooks
    assert (image / "etc" / "rollcall" / "site.toml").read_text().endswith((SOURCE / "site_config" / "minicluster.toml").read_text())
    assert "nothing to do" in site(rollcall, *install).stdout
    assert site(rollcall, "uninstall", *options[:2]).returncode == 0
    assert plugstack.read_text() == "optional /opt/other.so"
    assert not (image / "etc" / "rollcall").exists()


def test_links_in_an_image_resolve_inside_the_image(rollcall, image, tmp_path_factory):
    """A folder of this machine that has the name of an absolute link's target is neither read nor written."""
    outside = tmp_path_factory.mktemp("outside")
    (outside / "plugstack.conf").write_text("optional /opt/this_machines.so\n")
    etc = image / "etc" / "slurm"
    target = image / str(outside).lstrip("/")
    target.parent.mkdir(parents=True)
    etc.rename(target)
    etc.symlink_to(outside)
    (target / "plugstack.conf").write_text(f"include {outside}/more.conf\n")
    (target / "more.conf").write_text("optional /opt/images.so\n")
    options = ["--site", f"--root={image}", "--plugin=/opt/spank_rollcall.so"]
    done = site(rollcall, "install", *options)
    assert done.returncode == 0, done.stderr
    assert (outside / "plugstack.conf").read_text() == "optional /opt/this_machines.so\n"
    assert PLACED.search((target / "plugstack.conf").read_text())
    (target / "more.conf").write_text("optional /opt/spank_rollcall.so\n")
    for name in ("more.conf", "m*.conf"):
        plugstack = target / "plugstack.conf"
        plugstack.write_text(f"include {outside}/{name}\n")
        again = site(rollcall, "install", *options)
        assert again.returncode == 78 and f"{image}{outside}/more.conf" in again.stderr


def test_uninstall_follows_links_to_the_installed_files(rollcall, image):
    """Other nodes may find them by another way than this one's links."""
    (image / "srv").mkdir()
    (image / "srv" / "stack.conf").write_text("")
    (image / "etc" / "slurm" / "plugstack.conf").symlink_to("/srv/stack.conf")
    (image / "etc" / "rollcall").mkdir()
    (image / "etc" / "rollcall" / "site.toml").symlink_to("../../srv/site.toml")
    before = tree(image / "etc"), tree(image / "srv")
    options = ["--site", f"--root={image}", "--plugin=/opt/spank_rollcall.so"]
    assert site(rollcall, "install", *options, f"--profile={SOURCE}/site_config/minicluster.toml").returncode == 0
    assert "optional" in (image / "srv" / "stack.conf").read_text() and (image / "srv" / "site.toml").exists()
    assert site(rollcall, "uninstall", *options[:2]).returncode == 0
    assert (tree(image / "etc"), tree(image / "srv")) == before


def test_an_administrators_edits_are_never_lost(rollcall, image):
    options = ["--site", f"--root={image}", "--plugin=/opt/spank_rollcall.so"]
    plugstack = image / "etc" / "slurm" / "plugstack.conf"
    assert site(rollcall, "install", *options).returncode == 0
    plugstack.write_text(plugstack.read_text().replace("optional", "required"))
    before = tree(image / "etc")
    for command in (["install", *options], ["uninstall", *options[:2]]):
        result = site(rollcall, *command)
        assert result.returncode == 73 and "were edited" in result.stderr
    assert tree(image / "etc") == before
    plugstack.write_text("required /opt/spank_rollcall.so\n")
    result = site(rollcall, "install", *options)
    assert result.returncode == 78 and result.stderr == (f'rollcall: --site: {plugstack}: its line "required /opt/spank_rollcall.so ..." '
                                                         "already loads rollcall; try removing that line first\n")


@pytest.mark.parametrize("words", ["log=syslog", "log=syslog config_owner=7001", "rollcall=/opt/mine/rollcall  log=syslog"])
def test_documented_plugin_arguments_do_not_count_as_an_edit(rollcall, image, words):
    (image / "opt" / "mine").mkdir()
    shutil.copy(rollcall, image / "opt" / "mine")
    options = ["--site", f"--root={image}", "--plugin=/opt/spank_rollcall.so"]
    plugstack = image / "etc" / "slurm" / "plugstack.conf"
    plugstack.write_text("optional /opt/other.so log=syslog\n")
    assert site(rollcall, "install", *options, f"--profile={SOURCE}/site_config/minicluster.toml").returncode == 0
    line = PLACED.search(plugstack.read_text())[0]
    plugstack.write_text(plugstack.read_text().replace(line, f"{line} {words}"))
    again = site(rollcall, "install", *options)
    assert again.returncode == 0, again.stderr
    (written,) = [text for text in plugstack.read_text().splitlines() if PLACED.match(text)]
    assert set(written.split()[2:]) == {"config=/etc/rollcall/site.toml", *words.split()}
    assert "nothing to do" in site(rollcall, "install", *options).stdout
    plugstack.write_text(plugstack.read_text().replace("/site.toml", "/other.toml"))
    assert site(rollcall, "install", *options).returncode == 73
    plugstack.write_text(plugstack.read_text().replace("/other.toml", "/site.toml").replace(" log=syslog\n#", "\n#"))
    assert site(rollcall, "uninstall", *options[:2]).returncode == 0
    assert plugstack.read_text() == "optional /opt/other.so log=syslog\n"


@pytest.mark.parametrize("named", ["/opt/none", "bin/rollcall"])
def test_a_rollcall_argument_that_is_not_a_program_is_an_error(rollcall, image, named):
    options = ["--site", f"--root={image}", "--plugin=/opt/spank_rollcall.so"]
    plugstack = image / "etc" / "slurm" / "plugstack.conf"
    assert site(rollcall, "install", *options).returncode == 0
    plugstack.write_text(PLACED.sub(lambda line: f"{line[0]} rollcall={named}", plugstack.read_text()))
    done = site(rollcall, "install", *options)
    assert done.returncode == 127 and f"rollcall: {named}: is not a program" in done.stderr


@pytest.mark.parametrize("above", [True, False], ids=["above the plugin", "none there"])
def test_site_install_places_the_program_beside_the_plugin(rollcall, image, above):
    if above:
        (image / "opt" / "bin").mkdir()
        (image / "opt" / "bin" / "rollcall").write_bytes(rollcall.read_bytes() + b"the image's")
    options = ["--site", f"--root={image}", "--plugin=/opt/spank_rollcall.so"]
    assert site(rollcall, "install", *options).returncode == 0
    (placed,) = image.glob("opt/*/bin/rollcall")
    assert placed.stat().st_mode & 0o7777 == 0o755
    assert placed.read_bytes().endswith(b"the image's") == above
    (plugin,) = image.glob("opt/*/spank_rollcall.so")
    again = site(rollcall, "install", "--site", f"--root={image}", f"--plugin=/{plugin.relative_to(image)}")
    assert "nothing to do" in again.stdout


def test_a_writable_plugin_is_refused_unless_config_owner_is_any(rollcall, image):
    options = ["--site", f"--root={image}", "--plugin=/opt/spank_rollcall.so"]
    plugin = image / "opt" / "spank_rollcall.so"
    os.chown(plugin, -1, 7001)
    plugin.chmod(0o664)
    refused = site(rollcall, "install", *options)
    assert refused.returncode == 78 and f"others may write to {plugin}" in refused.stderr and f"chmod g-w {plugin}" in refused.stderr
    assert site(rollcall, "install", *options, "--config-owner=any").returncode == 0


def test_a_plugin_in_a_folder_that_others_may_write_to_is_refused(rollcall, image):
    """They could put another one in its place before it is copied as root's."""
    folder = image / "opt" / "lib" / "rollcall" / "slurm-22.05"
    folder.mkdir(parents=True)
    shutil.copy(image / "opt" / "spank_rollcall.so", folder)
    options = ["--site", f"--root={image}", "--plugin=/opt/lib/rollcall/slurm-22.05/spank_rollcall.so"]
    folder.chmod(0o777)
    refused = site(rollcall, "install", *options)
    assert refused.returncode == 78 and f"others may write to {folder}" in refused.stderr
    assert not list((image / "opt" / "lib" / "rollcall").glob("22.05-*"))
    folder.chmod(0o755)
    assert site(rollcall, "install", *options).returncode == 0


@pytest.mark.parametrize("line", ["PlugStackConfig = {}", 'PlugStackConfig="{}"', "SlurmctldPort=6817 PlugStackConfig={}",
                                  "PlugStackConfig=\\\n{}"])
def test_plugstackconfig_is_parsed_in_every_spelling(rollcall, image, line):
    etc = image / "etc" / "slurm"
    (etc / "slurm.conf").write_text("ClusterName=image\n" + line.format("/etc/slurm/stack.conf") + "\n")
    options = ["--site", f"--root={image}", "--plugin=/opt/spank_rollcall.so"]
    done = site(rollcall, "install", *options)
    assert done.returncode == 0, done.stderr
    assert PLACED.search((etc / "stack.conf").read_text())
    assert sorted(path.name for path in etc.iterdir()) == ["slurm.conf", "stack.conf"]
    assert site(rollcall, "uninstall", *options[:2]).returncode == 0 and not (etc / "stack.conf").exists()


def test_a_relative_plugstackconfig_is_refused(rollcall, image):
    (image / "etc" / "slurm" / "slurm.conf").write_text("PlugStackConfig=stack.conf\n")
    for command in (["install", "--plugin=/opt/spank_rollcall.so"], ["uninstall"]):
        result = site(rollcall, *command, "--site", f"--root={image}")
        assert result.returncode == 78 and "stack.conf: is not an absolute path" in result.stderr


@pytest.mark.parametrize("name", ["slurm/plugstack.conf", "rollcall/site.toml", "slurm/slurm.conf.d"])
@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: path.write_bytes(b"#" * (2 << 20))])
def test_an_unreadable_file_is_an_error_and_not_treated_as_absent(rollcall, image, name, make):
    """A read error would otherwise cost the site its own lines: an empty file and an unreadable one are different things."""
    (image / "etc" / "rollcall").mkdir()
    (image / "etc" / "slurm" / "slurm.conf").write_text("ClusterName=image\ninclude slurm.conf.d\n")
    make(image / "etc" / name)
    before = sorted(image.rglob("*"))
    options = ["--site", f"--root={image}", "--plugin=/opt/spank_rollcall.so"]
    for arguments in (["install", *options, f"--profile={SOURCE}/site_config/minicluster.toml"], ["uninstall", *options[:2]]):
        result = site(rollcall, *arguments)
        assert result.returncode == 66, result.stdout + result.stderr
        assert f"{image}/etc/{name}: cannot be read: " in result.stderr and "nothing was changed" in result.stderr
    assert sorted(image.rglob("*")) == before


def test_files_that_users_cannot_read_are_a_warning(rollcall, image):
    image.chmod(0o755)
    plugin = image / "private" / "lib" / "spank_rollcall.so"
    plugin.parent.mkdir(parents=True)
    shutil.copy(image / "opt" / "spank_rollcall.so", plugin)
    (image / "etc" / "rollcall").mkdir()
    options = ["install", "--site", f"--root={image}", "--plugin=/private/lib/spank_rollcall.so",
               f"--profile={SOURCE}/site_config/minicluster.toml"]
    assert "users cannot" not in site(rollcall, *options, "--dry-run").stdout
    (image / "private").chmod(0o700)
    (image / "etc" / "rollcall").chmod(0o700)
    plugin.chmod(0o640)
    (image / "etc" / "slurm" / "plugstack.conf").write_text("")
    (image / "etc" / "slurm" / "plugstack.conf").chmod(0o600)
    done = site(rollcall, *options)
    assert done.returncode == 0, done.stderr
    assert re.findall(r"^rollcall: warning: (\S+): users cannot (\w+) it \(mode (\d+)\)", done.stdout, re.MULTILINE) == [
        (f"{image}/private", "enter", "0700"), (f"{image}/etc/rollcall", "enter", "0700"),
        (f"{image}/etc/slurm/plugstack.conf", "read", "0600")]


@pytest.mark.parametrize("name", ["opt/spank_rollcall.so", "mine.toml"])
def test_world_writable_source_files_are_not_installed(rollcall, image, name):
    shutil.copy(SOURCE / "site_config" / "minicluster.toml", image / "mine.toml")
    options = ["install", "--site", f"--root={image}", "--plugin=/opt/spank_rollcall.so", f"--profile={image}/mine.toml"]
    (image / name).chmod(0o666)
    refused = site(rollcall, *options)
    assert refused.returncode == 78 and f"rollcall: {image}/{name}: others may write to {image}/{name}, so others could run" in refused.stderr
    os.chown(image / name, 4711 if os.geteuid() == 0 else -1, -1)
    (image / name).chmod(0o644)
    assert site(rollcall, *options).returncode == 0


@pytest.mark.parametrize("name", ["opt", "etc/rollcall", "etc/slurm", "etc/slurm/slurm.conf", "etc/slurm/more.conf"])
def test_install_refuses_targets_that_steps_would_not_trust(rollcall, image, name):
    (image / "etc" / "rollcall").mkdir()
    (image / "etc" / "slurm" / "plugstack.conf").write_text("include more.conf\n")
    (image / "etc" / "slurm" / "more.conf").write_text("optional /opt/old/spank_rollcall.so\n" if name.endswith("more.conf") else "")
    (image / name).chmod(0o777 if (image / name).is_dir() else 0o666)
    before = tree(image / "etc")
    options = ["install", "--site", f"--root={image}", "--plugin=/opt/spank_rollcall.so", f"--profile={SOURCE}/site_config/minicluster.toml"]
    refused = site(rollcall, *options)
    assert refused.returncode == 78 and f"others may write to {image}/{name}, so others could run code as any user" in refused.stderr
    assert f"try chmod o-w {image}/{name}" in refused.stderr and tree(image / "etc") == before
    if not name.endswith("more.conf"):
        assert site(rollcall, *options, "--config-owner=any").returncode == 0
        assert " config=/etc/rollcall/site.toml config_owner=any\n" in (image / "etc" / "slurm" / "plugstack.conf").read_text()
        assert "nothing to do" in site(rollcall, *options).stdout  # the line says so from now on
