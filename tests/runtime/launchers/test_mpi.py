"""MPI launchers around rollcall and MPI programs behind it: PMIx, Open MPI's mpirun, PMI."""

import pathlib
import shlex
import shutil
import subprocess

import pytest

from minicluster import run

pytestmark = [pytest.mark.slurm, pytest.mark.long]

HELLO = r"""
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char** argv) {
  int rank, size, sum = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  const char* ours = getenv("RANK");
  printf("mpi %d of %d, sum %d, RANK %s\n", rank, size, sum, ours ? ours : "unset");
  return MPI_Finalize();
}
"""
HELLO_LINES = [f"mpi {rank} of 4, sum 6, RANK {rank}" for rank in range(4)]


@pytest.fixture(scope="module")
def mpi_hello(tmp_path_factory):
    if shutil.which("mpicc") is None:
        pytest.skip("mpicc is not installed (package libopenmpi-dev)")
    folder = tmp_path_factory.mktemp("mpi")
    (folder / "mpi_hello.c").write_text(HELLO)
    subprocess.run(["mpicc", "-o", folder / "mpi_hello", folder / "mpi_hello.c"], check=True, capture_output=True)
    return folder / "mpi_hello"


@pytest.fixture(scope="module")
def site(cluster):
    """The environment by which the command reads the cluster's profile, as the plugin does."""
    return {"ROLLCALL_SITE_CONFIG": str(cluster.folder / "etc" / "site.toml")}


@pytest.fixture
def recorded(tmp_path):
    """A command that writes its environment to a file named by RANK, and a function that reads them in that order."""
    folder = tmp_path / "environments"
    folder.mkdir(mode=0o777)

    def read():
        found = [dict(line.split("=", 1) for line in file.read_text().split("\0") if line) for file in folder.iterdir()]
        return sorted(found, key=lambda e: int(e["RANK"]))

    return ["sh", "-c", f"env -0 > {folder}/$RANK"], read


def check_world(environments, size):
    assert [e["RANK"] for e in environments] == [str(rank) for rank in range(size)]
    assert {e["WORLD_SIZE"] for e in environments} == {str(size)}
    assert len({(e["MASTER_ADDR"], e["MASTER_PORT"]) for e in environments}) == 1
    nodes = {e["NODE_RANK"] for e in environments}
    assert nodes == {str(node) for node in range(len(nodes))}
    for node in nodes:
        here = [e for e in environments if e["NODE_RANK"] == node]
        assert sorted(int(e["LOCAL_RANK"]) for e in here) == list(range(len(here)))
        assert {e["LOCAL_WORLD_SIZE"] for e in here} == {str(len(here))}


# ---------------------------------------------------------------- an MPI program behind rollcall exec


@pytest.mark.parametrize("layout", [("-N4", "--ntasks-per-node=1"), ("-N1", "-n4")])
def test_an_mpi_program_behind_exec_runs_under_srun_with_pmix(cluster, rollcall, site, mpi_hello, layout):
    result = cluster.run("srun", "--mpi=pmix", *layout, rollcall, "exec", "--", mpi_hello, env=site)
    assert sorted(result.stdout.splitlines()) == HELLO_LINES


def test_an_mpi_program_behind_exec_runs_under_mpirun(rollcall, mpi_hello, mpirun):
    result = run(mpirun("-np", 4, rollcall, "exec", "--", mpi_hello))
    assert sorted(result.stdout.splitlines()) == HELLO_LINES, result.stderr


@pytest.mark.parametrize("late", [0, 1, 2])
def test_mpi_init_works_when_one_rank_closes_its_pmix_client_late(rollcall, mpi_hello, mpirun, tmp_path, late):
    """A server counts the end of a client as its rank's absence from the fences that others of the node have begun: without order
    among the ranks, the late one's MPI_Init would wait for ever."""
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    delay = f"strace -f -qq -o {tmp_path}/trace -e trace=shutdown -e inject=shutdown:delay_enter=1000000:when=1"
    script = f"""[ $OMPI_COMM_WORLD_RANK = {late} ] && exec {delay} {rollcall} exec -- {mpi_hello}
exec {rollcall} exec -- {mpi_hello}"""
    result = run(mpirun("-np", 3, "sh", "-c", script))
    assert "DELAYED" in (tmp_path / "trace").read_text(), "PMIx closes its connection in another way now: delay that"
    assert len(result.stdout.splitlines()) == 3, result.stderr


GIVEN = {"MASTER_ADDR": "localhost", "MASTER_PORT": "23456"}


@pytest.mark.parametrize("late", [0, 1])
def test_mpi_init_works_with_a_late_rank_when_the_endpoint_is_given(rollcall, mpi_hello, mpirun, late):
    """No rendezvous of rollcall synchronises the ranks then."""
    script = f"[ $OMPI_COMM_WORLD_RANK = {late} ] && sleep 7; exec {rollcall} exec -- {mpi_hello}"
    result = run(mpirun("-np", 3, "-x", "MASTER_ADDR", "-x", "MASTER_PORT", "sh", "-c", script), env=GIVEN)
    assert len(result.stdout.splitlines()) == 3, result.stderr


def test_a_missing_rank_with_a_given_endpoint_is_reported(rollcall, mpirun, tmp_path):
    script = f"""[ $OMPI_COMM_WORLD_RANK = 0 ] && exec {rollcall} exec -- sh -c 'echo went on; : > {tmp_path}/on'
until [ -e {tmp_path}/on ]; do sleep 0.02; done"""
    result = run(mpirun("-np", 2, "-x", "MASTER_ADDR", "-x", "MASTER_PORT", "sh", "-c", script),
                 env={**GIVEN, "ROLLCALL_RENDEZVOUS_TIMEOUT": "1"})
    assert result.stdout == "went on\n", result.stderr
    assert "rendezvous.timeout: 1 s: a rank of this node did not reach rollcall exec" in result.stderr


def test_exec_can_run_twice_in_one_mpi_task(cluster, rollcall, site, mpi_hello):
    twice = f"{rollcall} exec -- true; exec {rollcall} exec -- {mpi_hello}"
    result = cluster.run("srun", "--mpi=pmix", "-N1", "-n4", rollcall, "exec", "--", "sh", "-c", twice, env=site)
    assert sorted(result.stdout.splitlines()) == HELLO_LINES


def test_a_pmix_gds_component_of_the_user_is_kept(cluster, rollcall, site, mpi_hello):
    result = cluster.run("srun", "--mpi=pmix", "-N1", "-n4", rollcall, "exec", "--", mpi_hello,
                         env={**site, "PMIX_MCA_gds": "ds21,hash"})
    assert sorted(result.stdout.splitlines()) == HELLO_LINES


def test_a_killed_program_behind_exec_does_not_end_the_step(cluster, rollcall, site, tmp_path):
    script = tmp_path / "script"
    tmp_path.chmod(0o777)
    script.write_text(f"""
if [ $RANK = 1 ]; then echo $$ > {tmp_path}/pid.new; mv {tmp_path}/pid.new {tmp_path}/pid; kill -9 $$; fi
until [ -e {tmp_path}/pid ] && ! grep -qs '^State:.[^Z]' /proc/$(cat {tmp_path}/pid)/status; do sleep 0.02; done
echo survived
""")
    result = cluster.run("srun", "--mpi=pmix", "-n2", rollcall, "exec", "--", "sh", script, env=site, check=False)
    assert result.stdout == "survived\n", result.stderr


# ---------------------------------------------------------------- which source has precedence


def test_ranks_of_mpirun_form_one_world(rollcall, mpirun, recorded):
    command, read = recorded
    result = run(mpirun("-np", 3, rollcall, "exec", "--", *command))
    assert result.returncode == 0, result.stderr
    check_world(read(), 3)
    assert {e["MASTER_ADDR"] for e in read()} != {""}


def test_two_mpiruns_use_different_ports(rollcall, mpirun, tmp_path):
    ports = {run(mpirun("-np", 2, rollcall, "exec", "--", "sh", "-c", "echo $MASTER_PORT")).stdout for _ in range(2)}
    assert len(ports) == 2


@pytest.mark.parametrize("rendezvous", ["auto", "address"])
def test_the_stale_slurm_rank_is_ignored_under_salloc_and_mpirun(cluster, rollcall, site, mpirun, recorded, rendezvous):
    command, read = recorded
    cluster.run("salloc", "-N2", "--ntasks-per-node=2", *mpirun("-np", 4, rollcall, "exec", "--", *command),
                env={**site, "ROLLCALL_RENDEZVOUS": rendezvous})
    environments = read()
    assert [e["SLURM_PROCID"] for e in environments] != [e["RANK"] for e in environments]
    assert [e["RANK"] for e in environments] == ["0", "1", "2", "3"]
    assert {e["WORLD_SIZE"] for e in environments} == {"4"}
    if rendezvous == "auto":
        check_world(environments, 4)


def test_env_verbose_reports_which_sources_answered_and_declined(cluster, rollcall, site, mpirun):
    script = "#!/bin/sh\n" + shlex.join(map(str, mpirun("-np", 2, rollcall, "env", "--verbose", "--all-ranks"))) + "\n"
    output = cluster.batch(script, "-N1", "-n2", env=site)
    assert "ompi          answered  rank 1 of 2" in output
    assert "slurm         declined  " in output


def test_srun_inside_mpirun_uses_slurms_ranks(cluster, rollcall, site, mpirun, recorded):
    command, read = recorded
    inner = shlex.join(map(str, ["srun", "--mpi=pmix", "-N2", "-n3", rollcall, "exec", "--", *command]))
    cluster.run(*mpirun("-np", 1, "sh", "-c", inner), env=site)
    check_world(read(), 3)


def test_slurms_pmi2_gives_slurms_ranks(cluster, rollcall, site, recorded):
    command, read = recorded
    cluster.run("srun", "--mpi=pmi2", "-N2", "-n3", rollcall, "exec", "--", *command, env=site)
    check_world(read(), 3)
    assert [e["PMI_RANK"] for e in read()] == [e["SLURM_PROCID"] for e in read()] == ["0", "1", "2"]


def test_ranks_of_hydra_form_one_world(rollcall, recorded):
    if shutil.which("mpiexec.hydra") is None:
        pytest.skip("MPICH's mpiexec.hydra is not installed")
    command, read = recorded
    result = run(["mpiexec.hydra", "-np", "3", rollcall, "exec", "--", *command])
    assert result.returncode == 0, result.stderr
    check_world(read(), 3)


# ---------------------------------------------------------------- PMIx under srun


def test_exec_under_pmix_sets_the_same_variables_as_the_plugin(cluster, rollcall, site, recorded):
    command, read = recorded
    for options in (["-N2", "-n3"], ["-N3", "-n7", "--distribution=cyclic"]):
        plugins, _ = cluster.environments("--ddp", "--mpi=pmix", *options)
        cluster.run("srun", "--mpi=pmix", *options, rollcall, "exec", "--", *command, env=site)
        names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK", "MASTER_ADDR", "GLOO_SOCKET_IFNAME")
        assert [[e[n] for n in names] for e in read()] == [[e[n] for n in names] for e in plugins]
        check_world(read(), len(plugins))
        for file in pathlib.Path(command[-1].split()[-1]).parent.iterdir():
            file.unlink()


def test_a_het_step_under_pmix_is_one_world(cluster, rollcall, site, recorded):
    command, read = recorded
    # Slurm 22.05's srun may wait for ever for a thread of its own PMIx part where both components end in the same instant.
    command[-1] += "; [ $RANK = 0 ] || sleep 1"
    inner = shlex.join(map(str, ["srun", "--mpi=pmix", "--het-group=0,1", rollcall, "exec", "--", *command]))
    result = cluster.run("salloc", "-N1", "-n1", ":", "-N2", "-n3", "bash", "-c", inner, env=site)
    check_world(read(), 4)
    assert "warning" not in result.stderr


def test_exec_inside_a_ddp_step_keeps_the_endpoint_and_does_not_use_pmix(cluster, rollcall, recorded):
    command, read = recorded
    cluster.run("srun", "--ddp", "--mpi=pmix", "-N2", rollcall, "exec", "--", *command)
    check_world(read(), 2)
    assert not any("PMIX_MCA_gds" in e for e in read())  # PMIx was left to the program


def test_pmix_gives_the_host_of_rank_0_for_arbitrary_distribution(cluster, rollcall, site, tmp_path):
    hosts = tmp_path / "hosts"
    hosts.write_text("jwb0003\njwb0001\njwb0003\n")
    result = cluster.run("srun", "--mpi=pmix", "-m", "arbitrary", "-n3", rollcall, "exec", "--", "true", check=False,
                         env={**site, "SLURM_HOSTFILE": str(hosts), "ROLLCALL_HOST_TEMPLATE": "{host}.example"})
    assert result.returncode == 69
    assert "rollcall: host.template: jwb0003.example: does not resolve on jwb0003" in result.stderr
    assert "MASTER_ADDR" not in result.stderr  # the others know where it is, and fail as rank 0 does


@pytest.mark.parametrize("variable, value", [("SLURM_PROCID", "0"), ("SLURM_STEP_NUM_TASKS", "9")])
def test_slurm_variables_that_contradict_slurms_pmix_are_an_error(cluster, rollcall, site, variable, value):
    layout = "SLURM_STEP_TASKS_PER_NODE=9" if value == "9" else "true=true"
    result = cluster.run("srun", "--mpi=pmix", "-N1", "-n2", "env", f"{variable}={value}", layout, rollcall, "exec", "--", "true",
                         env=site, check=False)
    assert result.returncode != 0
    assert f"rollcall: {variable}: {value}: is " in result.stderr and " according to Slurm's own PMIx" in result.stderr


@pytest.mark.parametrize("program", ["rollcall", "rollcall_train"])
def test_waiting_for_a_missing_rank_ends_at_the_rendezvous_timeout(cluster, site, request, program):
    executable = request.getfixturevalue(program)
    joins = f"{executable} exec -- true" if program == "rollcall" else f"{executable} --dry-run"
    script = f"[ $SLURM_PROCID = 2 ] || exec {joins}"
    result = cluster.run("srun", "--mpi=pmix", "-N3", "-n3", "sh", "-c", script, check=False,
                         env={**site, "ROLLCALL_RENDEZVOUS_TIMEOUT": "2", "OMP_NUM_THREADS": "1"})
    assert result.returncode != 0
    assert "PMIx_Fence: a rank did not arrive within 2 s" in result.stderr
    assert "rendezvous.timeout" in result.stderr


def test_rendezvous_pmix_without_a_pmix_server_is_an_error(cluster, rollcall, site):
    result = cluster.run("srun", "--mpi=none", "-n1", rollcall, "exec", "--", "true", check=False,
                         env={**site, "ROLLCALL_RENDEZVOUS": "pmix"})
    assert "rollcall: rendezvous: pmix: no PMIx server started this task" in result.stderr


# ---------------------------------------------------------------- the trainer


def test_the_trainer_rendezvous_works_under_mpirun(rollcall_train, mpirun):
    result = run(mpirun("-np", 2, rollcall_train, "--dry-run"), env={"OMP_NUM_THREADS": "1"})
    assert result.stdout.count("DONE ") == 2, result.stderr
    assert "rendezvous pmix " in result.stdout
