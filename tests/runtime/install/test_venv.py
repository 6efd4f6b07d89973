"""A configured virtual environment that is missing on one node: another Python would run there unnoticed."""

import os

import pytest

from minicluster import Minicluster, rollcall_lines
from test_install import User, home_with_settings

pytestmark = [pytest.mark.slurm,
              pytest.mark.skipif(os.geteuid() != 0, reason="only root may put another folder in a folder's place on one node")]


@pytest.fixture
def venv(tmp_path):
    for part in (tmp_path, *list(tmp_path.parents)[:2]):
        part.chmod(0o755)
    python = tmp_path / "venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\necho mine\n")
    python.chmod(0o755)
    return tmp_path / "venv"


@pytest.mark.parametrize("way", ["plugin", "exec", "user's installation"])
def test_a_node_without_the_venv_ends_the_step(short_folder, plugin, rollcall, venv, tmp_path, way):
    (tmp_path / "empty").mkdir()
    options = [f"--plugin={plugin}"] if way == "plugin" else []
    cluster = Minicluster(short_folder / "venv", "--nodes=2", *options).start()
    try:
        cluster.restart_node_with("jwb0002", tmp_path / "empty", venv)
        user = User(cluster, rollcall, plugin, home_with_settings(tmp_path / "home"))
        front = [str(rollcall), "exec", "--"] if way == "exec" else []
        if way.startswith("user"):
            user.install()
        conf = user.conf if way.startswith("user") else cluster.folder / "etc" / "slurm.conf"
        result = user.run_as_user(["env", f"SLURM_CONF={conf}", "srun", *([] if front else ["--ddp"]), "-N2", "--ntasks-per-node=2",
                              "--kill-on-bad-exit=0", *front, "python"], False, {"ROLLCALL_VENV": str(venv)})
        assert result.returncode != 0 and result.stdout == "mine\n" * 2, result.stderr
        (line,) = rollcall_lines(result.stderr)
        assert f"rollcall: venv: {venv}: bin/python: No such file or directory on jwb0002, so that another Python would run; try " in line
    finally:
        cluster.stop()
