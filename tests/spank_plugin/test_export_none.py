"""The environment of a step does not depend on --export: --export=NONE removes HOME and USER, which locate the
configuration file of the user and the cache folders."""

import os
import shlex

import pytest

from minicluster import SLURM, SOURCE, Minicluster

pytestmark = [pytest.mark.slurm, pytest.mark.skipif(os.geteuid() != 0, reason="only root may put another file in the place of /etc/passwd")]


@pytest.fixture(scope="module")
def home(short_folder):
    """The home of this cluster's user, with a file of settings."""
    folder = short_folder / "home"
    (folder / ".config" / "rollcall").mkdir(parents=True)
    (folder / ".config" / "rollcall" / "config.toml").write_text(
        f'threads = 7\n[cache]\nlocal = "{folder}/cache-${{USER}}"\nshared = "${{HOME}}/cache"\n')
    return folder


@pytest.fixture(scope="module")
def cluster(short_folder, plugin, home):
    users = short_folder / "passwd"
    users.write_text("".join(f"root:x:0:0::{home}:/bin/sh\n" if line.startswith("root:") else line for line in open("/etc/passwd")))
    in_its_place = ["unshare", "--mount", "--propagation=private", "sh", "-c", 'mount --bind "$0" /etc/passwd && exec "$@"', str(users)]
    made = Minicluster(short_folder / "none", "--nodes=2", f"--plugin={plugin}", prefix=in_its_place).start()
    yield made
    made.stop()


@pytest.mark.parametrize("export", ["--export=NONE", "--export=LANG"])
@pytest.mark.parametrize("by_plugin", [True, False], ids=["plugin", "exec"])
def test_export_none_keeps_the_config_file_and_caches_of_the_user(cluster, rollcall, home, export, by_plugin):
    ask = ["--ddp", "-N2"] if by_plugin else ["-N2", str(rollcall), "exec", "--"]
    environments, errors = cluster.environments(export, *ask, env={"HOME": str(home)})
    assert len(environments) == 2 and "rollcall" not in errors
    for e in environments:
        assert e["OMP_NUM_THREADS"] == "7"
        assert e["TRITON_CACHE_DIR"] == f"{home}/cache-root/triton" and e["TORCH_HOME"] == f"{home}/cache/torch"
        assert "HOME" not in e and "USER" not in e  # who wanted none gets none


@pytest.mark.parametrize("template", ["run_python.sbatch", "run.sbatch"])
def test_tasks_of_a_template_inherit_the_environment_of_its_script(cluster, home, template):
    export = "--export=PATH" if SLURM else "--export=NONE"  # a Slurm that is not this machine's is found by PATH alone
    programs = cluster.new_folder()
    record, read = cluster.recorder()
    for name in ("python", "rollcall-train"):
        (programs / name).write_text(f"#!/bin/sh\nexec {shlex.join(record)}\n")
        (programs / name).chmod(0o755)
    output = cluster.batch(f"#!/bin/bash\n#SBATCH -N2\nexport PATH={programs}:$PATH FROM_A_MODULE=1\n"
                           f". {SOURCE}/sbatch_templates/{template}\n", export, env={"HOME": str(home)})
    assert [e.get("FROM_A_MODULE") for e in read()] == ["1", "1"], output
