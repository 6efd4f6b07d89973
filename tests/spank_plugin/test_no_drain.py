"""With `required` in plugstack.conf, no rollcall error drains a node. Slurm drains a node if a required plugin fails in a
batch job before task_init, and some versions then report the job as completed, or requeue it."""

import os
import shlex

import pytest

from minicluster import poll, rollcall_lines

pytestmark = [pytest.mark.slurm, pytest.mark.long]


@pytest.fixture(scope="module")
def required(cluster):
    """The cluster of the session with `required`; site(text) changes the profile, None takes it away."""
    plugstack, profile = cluster.folder / "etc" / "plugstack.conf", cluster.folder / "etc" / "site.toml"
    line, text = plugstack.read_text(), profile.read_text()
    plugstack.write_text(line.replace("optional", "required"))
    yield cluster
    plugstack.write_text(line)
    profile.write_text(text)


@pytest.fixture
def profile(required):
    path = required.folder / "etc" / "site.toml"
    text = path.read_text()
    yield path
    if path.is_dir():
        path.rmdir()
    path.write_text(text)
    path.chmod(0o644)


def all_nodes_idle(cluster):
    states = cluster.run("sinfo", "-h", "-N", "-o", "%N %T").stdout.split("\n")
    return all(line.split()[1] == "idle" for line in states if line)


def check_nodes(cluster):
    """All nodes get idle: none is drained, down, or held by a job that was queued again."""
    poll(lambda: all_nodes_idle(cluster), f"idle nodes instead of {cluster.run('sinfo', '-N', '-o', '%N %T %E').stdout}")


def batch(cluster, srun, outer="--ddp", env=None):
    """Output of a batch script that asks for --ddp and runs one step. The script itself must run, and run once."""
    output = cluster.batch(f"#!/bin/bash\n#SBATCH -N2 {outer} --no-requeue\necho began\n{srun}\necho rc=$?\n", env=env)
    assert output.count("began") == 1, output
    # Slurm 22.05 only says so; later ones drain the node for it.
    assert "required plugin" not in output, output
    return output


# ---------------------------------------------------------------- the site's mistakes


def absent(path):
    path.unlink()


def damaged(path):
    path.write_text("[host\n")


def unknown_key(path):
    path.write_text("[host]\ntemplatte = \"x\"\n")


def wrong_value(path):
    path.write_text("threads = \"many\"\n")


def folder(path):
    path.unlink()
    path.mkdir()


def binary(path):
    path.write_bytes(os.urandom(4096))


def no_such_host(path):
    path.write_text("[host]\ntemplate = \"nosuch-{host}\"\n")


def no_such_interface(path):
    path.write_text("[host]\ntemplate = \"localhost\"\nloopback = \"allow\"\n[interface]\ngloo = [\"ib9\"]\n")


def unknown_lock(path):
    path.write_text("[site]\nname = \"x\"\nlocked = [\"threds\"]\n")


SITE_MISTAKES = [unknown_lock, absent, damaged, unknown_key, wrong_value, folder, binary, no_such_host, no_such_interface]


@pytest.mark.parametrize("break_it", SITE_MISTAKES, ids=lambda function: function.__name__)
def test_a_site_mistake_drains_no_node(required, profile, break_it):
    break_it(profile)
    step = required.run("srun", "--ddp", "-N2", "echo", "ran", check=False)
    output = batch(required, "srun echo ran")
    assert step.returncode != 0 and "ran" not in step.stdout
    assert rollcall_lines(step.stderr) != []
    assert "ran" not in output and "rc=0" not in output and "rc=" in output
    assert required.run("srun", "-N4", "true").returncode == 0  # other steps are not affected
    check_nodes(required)


def test_a_locked_setting_drains_no_node(required, profile):
    profile.write_text("threads = \"2\"\n\n" + profile.read_text().replace("[site]", "[site]\nlocked = [\"threads\"]", 1))
    step = required.run("srun", "--ddp", "-N2", "--export=ALL,ROLLCALL_THREADS=5", "true", check=False)
    assert step.returncode == 0 or rollcall_lines(step.stderr) != []
    batch(required, "srun --ddp=threads=5 true", env={"ROLLCALL_THREADS": "5"})
    check_nodes(required)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run steps of another user")
def test_an_unreadable_profile_drains_no_node(required, profile):
    as_nobody = ["runuser", "-u", "nobody", "--"]
    if required.run(*as_nobody, "srun", "--chdir=/tmp", "true", check=False).returncode != 0:
        pytest.skip("nobody cannot run steps here")
    profile.chmod(0o600)
    step = required.run(*as_nobody, "srun", "--chdir=/tmp", "--ddp", "-N2", "echo", "ran", check=False)
    assert step.returncode != 0 and "ran" not in step.stdout
    required.wait_for_job(required.run(*as_nobody, "sbatch", "--parsable", "--chdir=/tmp", "--ddp", "--no-requeue", "-N2",
                                       "--output=/dev/null", "--wrap", "srun true").stdout.strip())
    check_nodes(required)


# ---------------------------------------------------------------- the user's mistakes

# Mistakes that srun does not detect and that reach the nodes: --export changes only the environment of the tasks.
ON_THE_NODES = [
    "--ddp --export=ALL,ROLLCALL_THREADS=many",
    "--ddp --export=ALL,ROLLCALL_PORT_RNAGE=1-2",
    "--ddp --export=ALL,XDG_CONFIG_HOME={broken}",
    "--ddp --export=ALL,RANK=7",
    "--ddp --export=ALL,WORLD_SIZE=x",
    "--ddp --export=ALL,ROLLCALL_SITE_CONFIG=/nowhere,ROLLCALL_VENV=/nowhere",
    "--ddp=host.template=nosuch-{{host}}",
    "--ddp=interface.gloo=ib9",
    "--ddp=venv=/nowhere",
    "--ddp=interface.nccl=ib9",
]
IN_SRUN = ["--ddp=port.rnage=1-2", "--ddp=port.range=x", "--ddp=yes", "--ddp=,,", "--ddp=threads=-1", "--ddp=debug=maybe"]


@pytest.fixture
def broken(tmp_path):
    (tmp_path / "rollcall").mkdir()
    (tmp_path / "rollcall" / "config.toml").write_text("threads = [\n")
    return tmp_path


def test_user_mistakes_in_steps_drain_no_node(required, broken):
    for options in ON_THE_NODES + IN_SRUN:
        step = required.run("srun", *options.format(broken=broken).split(), "-N2", "echo", "ran", check=False)
        lines = rollcall_lines(step.stderr)
        assert (step.returncode == 0) == ("ran" in step.stdout), (options, step.stdout, step.stderr)
        assert step.returncode == 0 or lines, (options, step.stderr)
    check_nodes(required)


def test_user_mistakes_in_a_batch_job_drain_no_node(required, broken):
    steps = [f"srun {shlex.join(options.format(broken=broken).split())} true; echo ended" for options in ON_THE_NODES + IN_SRUN]
    output = batch(required, "\n".join(steps))
    assert output.count("ended") == len(steps), output
    check_nodes(required)


@pytest.mark.parametrize("variable, value", [
    ("ROLLCALL_THREADS", "many"), ("XDG_CONFIG_HOME", "{broken}"), ("RANK", "7"), ("ROLLCALL_HOST_TEMPLATE", "nosuch-{{host}}"),
    ("ROLLCALL_SET", "x" * 60000), ("SLURM_ROLLCALL_DDP", "yes"),
], ids=lambda text: text[:22])
def test_a_mistake_in_the_job_environment_drains_no_node(required, broken, variable, value):
    output = batch(required, "srun true", env={variable: value.format(broken=broken)})
    assert "rc=" in output
    check_nodes(required)


@pytest.mark.parametrize("option", ["--ddp=cache.shared=/" + "x" * 100000, "--ddp=host.template=" + "y" * 5000, "--ddp=venv=/a\tb\x01c"],
                         ids=lambda text: text[:20])
def test_oversized_values_drain_no_node(required, option):
    required.run("srun", option, "-N2", "true", check=False)
    submitted = required.run("sbatch", option, "--parsable", "--no-requeue", "-N2", "--output=/dev/null", "--wrap", "srun true",
                             check=False)
    if submitted.returncode == 0:
        required.wait_for_job(submitted.stdout.strip())
    check_nodes(required)


def test_a_failing_or_missing_program_drains_no_node(required):
    for program in (["false"], ["/nowhere/program"], ["bash", "-c", "kill -9 $$"]):
        assert required.run("srun", "--ddp", "-N2", *program, check=False).returncode != 0
    output = batch(required, "srun false; srun /nowhere/program; srun bash -c 'kill -9 $$'")
    assert "rc=" in output
    check_nodes(required)


def test_cancelling_a_starting_step_drains_no_node(required):
    folder_of_marks = required.new_folder()
    job = required.run("sbatch", "--parsable", "--no-requeue", "-N2", "--ddp", "--output=/dev/null", "--wrap",
                       f"srun bash -c 'touch {folder_of_marks}/$SLURM_PROCID; sleep 1000'").stdout.strip()
    poll(lambda: len(list(folder_of_marks.iterdir())) == 2, "two tasks run")
    required.run("scancel", job)
    check_nodes(required)


def test_the_plugin_still_works_afterwards(required):
    environments, errors = required.environments("--ddp", "-N4")
    assert [e["RANK"] for e in environments] == ["0", "1", "2", "3"] and rollcall_lines(errors) == []
    check_nodes(required)
