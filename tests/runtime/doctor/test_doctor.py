"""`rollcall doctor` on a real Slurm: a healthy step, and every failure that can be produced on one machine."""

import json
import os
import socket
import time

import pytest

from common_fixtures import built
from minicluster import SOURCE, Minicluster, poll

pytestmark = [pytest.mark.slurm, pytest.mark.long]

# The nodes of a throwaway cluster are one machine, as its profile says; its own name need not resolve anywhere.
PROFILE = {"ROLLCALL_SITE_CONFIG": str(SOURCE / "site_config" / "minicluster.toml"), "LC_ALL": "C.UTF-8"}
SKIP_OWN_NAME = "--skip=own-name,reverse-name"


@pytest.fixture(scope="module")
def doctor(cluster, rollcall):
    """Runs `srun SRUN_OPTIONS... [PROGRAM...] rollcall doctor OPTIONS...`; returns the finished process."""

    def run(srun_options, *options, before=(), env=None, timeout=120):
        command = ["srun", *srun_options, *before, str(rollcall), "doctor", *options]
        return cluster.run(*command, env={**PROFILE, **(env or {})}, check=False, timeout=timeout)

    return run


def nodes(count, tasks=1):
    # The first ones, also where a step before has just ended on them.
    names = ",".join(f"jwb{number:04}" for number in range(1, count + 1))
    return [f"-N{count}", f"--nodelist={names}", f"--ntasks-per-node={tasks}"]


def shell(text):
    """Runs `text` in every task; the doctor's command line is "$@"."""
    return ["bash", "-c", text, "task"]


def findings_of(result, check):
    return [f for f in json.loads(result.stdout)["findings"] if f["check"] == check]


def the_finding(result, check):
    (finding,) = findings_of(result, check)
    return finding


# ---------------------------------------------------------------- a healthy step


def test_a_healthy_step_of_four_nodes_gives_one_good_report(doctor, tmp_path):
    result = doctor(nodes(4), "--json", SKIP_OWN_NAME, env={"SCRATCH": str(tmp_path)})
    assert result.returncode == 0, result.stdout + result.stderr
    report = json.loads(result.stdout)  # one object: one rank spoke
    assert report["verdict"] == "good"
    assert (report["step"]["num_nodes"], report["step"]["world_size"]) == (4, 4)
    status = {f["check"]: f["status"] for f in report["findings"]}
    for check in ("answer", "way", "head-name", "interface", "head-port", "ring", "clock", "scratch", "speed"):
        assert status[check] == "good", report["findings"]
    assert "bad" not in status.values()
    assert list(tmp_path.iterdir()) == []  # what was written to SCRATCH is gone


def test_the_ring_benchmark_measures_all_reduce(doctor):
    result = doctor(nodes(3), "--json", "--only=speed")
    benchmark = json.loads(result.stdout)["benchmark"]
    assert (benchmark["ranks"], benchmark["error"]) == (3, "")
    assert {row["operation"] for row in benchmark["rows"]} == {"all-reduce"} and len(benchmark["rows"]) > 1
    assert all(row["seconds"] > 0 and row["gigabytes_per_second"] > 0 for row in benchmark["rows"])


def with_bench():
    """An environment in which rollcall-bench-collectives is found."""
    return {"PATH": f"{built('trainer/rollcall-bench-collectives').parent}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}


def test_doctor_collectives_option_measures_the_chosen_backends(doctor):
    result = doctor(["--ddp", *nodes(2, 2)], "--json", "--only=answer,collectives", "--collectives=auto,gloo", env=with_bench())
    assert result.returncode == 0, result.stdout + result.stderr
    rows = json.loads(result.stdout)["collectives"]["rows"]
    assert [(row["backend"], row["bytes"], row["correct"]) for row in rows] == [("gloo", size, True) for size in (1024, 1024, 1 << 24, 1 << 24)]
    assert the_finding(result, "collectives")["reason"].startswith("gloo: all_reduce of 1.02 kB ")


def test_doctor_passes_its_options_to_the_collectives_benchmark(doctor):
    """Without a profile the nodes' names mean nothing here."""
    result = doctor(nodes(2), "--json", "--only=collectives", "--collectives=gloo", "--interface-gloo=lo",
                    env={**with_bench(), "ROLLCALL_INTERFACE_GLOO": "nosuch0"})
    assert the_finding(result, "collectives")["status"] == "good", result.stdout


def test_failed_collectives_report_reason_and_action(doctor):
    result = doctor(["--mpi=none", *nodes(2)], "--json", "--collectives=mpi", "--only=collectives", env=with_bench())
    failed = bad(result, "collectives")
    assert failed["reason"].startswith("--backend: mpi: "), failed
    assert failed["action"]


@pytest.mark.parametrize("ranks", [None, 1, 2])
def test_doctor_refuses_an_unknown_backend_for_any_number_of_ranks(cluster, doctor, rollcall, ranks):
    options = ["--json", "--only=collectives", "--collectives=gloo,foo"]
    result = doctor(nodes(1, ranks), *options) if ranks else cluster.run(rollcall, "doctor", *options, env=PROFILE, check=False)
    assert result.returncode == 64, result.stderr
    assert result.stdout == ""
    line = "rollcall: --collectives: foo: is not a backend; try --collectives=auto, gloo, ucx, mpi, nccl"
    assert [output_line for output_line in result.stderr.splitlines() if output_line.startswith("rollcall: ")] == [line]


def test_collectives_are_skipped_without_the_benchmark_program(doctor):
    result = doctor(nodes(2), "--json", "--collectives=gloo", "--only=collectives", env={"PATH": "/usr/bin:/bin"})
    assert result.returncode == 0, result.stderr
    finding = the_finding(result, "collectives")
    assert finding["status"] == "absent" and "nor in PATH on jwb0001" in finding["reason"]


def test_several_ranks_per_node_give_one_ring_of_nodes_and_one_report(doctor):
    result = doctor(nodes(2, 3), SKIP_OWN_NAME, "--only=answer,ring,speed")
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.count("rollcall doctor:") == 1
    assert "✔ answer        all 6 ranks on 2 nodes answered" in result.stdout
    assert "ring of 2" in result.stdout


def test_ranks_of_a_single_node_form_a_ring(doctor):
    result = doctor(nodes(1, 3), "--json", "--only=ring,speed")
    assert json.loads(result.stdout)["benchmark"]["ranks"] == 3


def test_doctor_reports_how_the_step_was_started(doctor):
    assert "this step was started without it" in the_finding(doctor(nodes(2), "--json", "--only=way"), "way")["reason"]
    used = the_finding(doctor(["--ddp", *nodes(2)], "--json", "--only=way"), "way")
    assert used["status"] == "good"
    assert "site installation" in used["reason"] and used["reason"].endswith("set the environment of this step")


def test_doctor_reports_what_slurm_does_after_node_loss(cluster, doctor, rollcall):
    found = the_finding(doctor(nodes(2), "--json", "--only=node-loss"), "node-loss")
    assert found["status"] == "good"
    assert found["reason"] == "Slurm declares a node down after 15 s of silence, and requeues only batch jobs, and this is not one"
    script = f"#!/bin/sh\nexec {rollcall} doctor --json --only=node-loss\n"
    for option, status in (("--no-requeue", "notice"), ("--requeue", "good")):
        report = json.loads(cluster.batch(script, option, env=PROFILE))
        (found,) = report["findings"]
        assert found["status"] == status, found
        assert "may requeue" in found["reason"] if status == "good" else "submit with --requeue" in found["action"], found


def test_doctor_outside_a_step_checks_only_this_machine(cluster, rollcall):
    result = cluster.run(rollcall, "doctor", "--json", env=PROFILE, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    assert json.loads(result.stdout)["step"]["world_size"] == 1
    assert the_finding(result, "answer")["status"] == "absent"


# ---------------------------------------------------------------- what it looks like


def test_without_a_utf8_locale_the_table_is_ascii_and_never_coloured(doctor):
    result = doctor(nodes(2), "--no-bench", env={"LC_ALL": "C", "SCRATCH": "/proc"})
    assert result.returncode == 69
    assert result.stdout.isascii() and "\x1b" not in result.stdout
    assert "\nBAD  scratch " in result.stdout and "\nok   answer " in result.stdout


def test_doctor_lists_selects_and_skips_checks(cluster, doctor, rollcall):
    listed = [line.split()[0] for line in cluster.run(rollcall, "doctor", "--list").stdout.splitlines()]
    assert len(listed) == len(set(listed)) and {"answer", "ring", "speed"} < set(listed)
    report = json.loads(doctor(nodes(1), "--json", "--only=clock,shm", "--skip=shm").stdout)
    assert [f["check"] for f in report["findings"]] == ["clock"]
    wrong = doctor(nodes(2), "--only=scrach")
    assert wrong.returncode == 64
    assert wrong.stderr.count("rollcall: --only: scrach: is not a check; try --only=scratch") == 1


# ---------------------------------------------------------------- failures


def bad(result, check):
    """The one bad finding of `check`, in a report that fails as documented."""
    assert result.returncode == 69, result.stdout + result.stderr
    assert "rollcall: doctor: " in result.stderr
    finding = next(f for f in findings_of(result, check) if f["status"] == "bad")
    assert finding["action"]
    return finding


def test_an_unresolvable_head_name_is_reported_through_slurms_address(doctor):
    result = doctor(nodes(2), "--json", "--no-bench", "--host-template=no-such-{host}.invalid")
    head = bad(result, "head-name")
    assert head["hosts"] == ["jwb0001", "jwb0002"]
    assert "no-such-jwb0001.invalid does not resolve" in head["reason"]
    port = bad(result, "head-port")
    assert port["hosts"] == ["jwb0002"] and "127.0.0.1:" in port["reason"]
    assert the_finding(result, "answer")["status"] == "good"


def test_a_missing_interface_is_reported_with_the_available_ones(doctor):
    interface = bad(doctor(nodes(2), "--json", "--interface-gloo=ib7"), "interface")
    assert "interface.gloo: ib7 is not an interface" in interface["reason"] and "lo" in interface["action"]


def test_doctor_reports_the_task_prolog_and_the_variables_it_changed(rollcall, plugin, short_folder):
    made = Minicluster(short_folder / "prolog", "--nodes=2", f"--plugin={plugin}").start()
    try:
        prolog = made.folder / "task_prolog.sh"
        prolog.write_text("#!/bin/sh\necho export MASTER_ADDR=127.0.0.9\n")
        prolog.chmod(0o755)
        conf = made.folder / "etc" / "slurm.conf"
        conf.write_text(conf.read_text() + f"TaskProlog={prolog}\n")
        made.run("scontrol", "reconfigure")

        def way(*srun_options):
            found = made.run("srun", *srun_options, *nodes(2), str(rollcall), "doctor", "--json", "--only=way", env=PROFILE, check=False)
            return [f["reason"] for f in findings_of(found, "way") if f["status"] == "notice"]

        assert way() == [f"slurm.conf's TaskProlog, {prolog}, runs after srun --ddp, which does not see what it "
                         "sets (SCRATCH, TMPDIR); its values win"]
        (changed,) = way("--ddp")
        assert changed.startswith(f"MASTER_ADDR: changed after rollcall had set it, most likely by TaskProlog={prolog}; ")
    finally:
        made.stop()


def test_an_unwritable_scratch_folder_is_bad(doctor):
    scratch = bad(doctor(nodes(2), "--json", "--only=scratch", env={"SCRATCH": "/proc"}), "scratch")
    assert scratch["hosts"] == ["jwb0001", "jwb0002"] and "/proc cannot be written" in scratch["reason"]


def test_a_venv_without_a_working_python_is_bad(doctor, tmp_path):
    python = tmp_path / "venv" / "bin" / "python"
    assert "No such file" in bad(doctor(nodes(1), "--json", f"--venv={python.parents[1]}"), "venv")["reason"]
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\necho 'libpython3.so: cannot open shared object file' >&2\nexit 127\n")
    python.chmod(0o755)
    assert "cannot open shared object" in bad(doctor(nodes(1), "--json", f"--venv={python.parents[1]}"), "venv")["reason"]


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="this machine has one core: ranks must share it")
def test_ranks_of_a_node_bound_to_one_core_are_bad(doctor):
    core = str(min(os.sched_getaffinity(0)))
    cpus = bad(doctor(nodes(2, 2), "--json", "--no-bench", before=["taskset", "-c", core]), "cpus")
    assert cpus["hosts"] == ["jwb0001", "jwb0002"] and "all 2 ranks are on core" in cpus["reason"]


def test_doctor_reports_although_another_program_uses_the_head_port(doctor):
    with socket.socket() as other:
        other.bind(("", 0))
        other.listen()
        result = doctor(nodes(2), "--json", "--no-bench", env={"MASTER_PORT": str(other.getsockname()[1])})
    reasons = {f["hosts"][0]: f["reason"] for f in findings_of(result, "head-port")}
    assert "is in use" in reasons["jwb0001"] and "another program listens there" in reasons["jwb0002"]
    assert the_finding(result, "answer")["status"] == "good"


def test_doctor_reports_although_master_addr_is_unreachable(doctor):
    # A reserved address for documentation (RFC 5737): nothing answers, in whatever way.
    result = doctor(nodes(2), "--json", "--no-bench", env={"MASTER_ADDR": "192.0.2.1"})
    assert bad(result, "head-port")["reason"].startswith("192.0.2.1:")
    assert the_finding(result, "answer")["status"] == "good"


def test_a_node_that_does_not_answer_is_named(doctor):
    result = doctor(nodes(3), "--json", "--rendezvous-timeout=20", "--no-bench",
                    before=shell('[ "$SLURM_NODEID" = 1 ] || exec "$@"'))
    answer = bad(result, "answer")
    assert answer["hosts"] == ["jwb0002"] and answer["reason"] == "1 of 1 rank did not answer within 20 s"
    assert the_finding(result, "ring")["status"] == "good"  # of those who are there


def test_without_rank_0_each_node_prints_one_error_and_exits(doctor):
    result = doctor(nodes(3, 2), "--rendezvous-timeout=2", before=shell('[ "$SLURM_PROCID" = 0 ] || exec "$@"'))
    assert result.returncode == 69 and result.stdout == ""
    assert result.stderr.count("rank 0 does not answer") == 2  # one line a node, not one a rank


def test_a_rank_killed_while_the_others_wait_is_named(doctor, cluster):
    # Rank 1 has reported and is killed; rank 2 comes only then.
    killed = cluster.new_folder() / "killed"
    script = f'''case $SLURM_PROCID in
      1) "$@" & child=$!
         until [ -n "$(ss -Htnp state established 2>/dev/null | grep -F "pid=$child,")" ]; do sleep 0.02; done
         kill -KILL $child; touch {killed} ;;
      2) until [ -e {killed} ]; do sleep 0.02; done; exec "$@" ;;
      *) exec "$@" ;;
    esac'''
    result = doctor(nodes(3), "--json", "--rendezvous-timeout=30", before=shell(script))
    answer = bad(result, "answer")
    assert answer["hosts"] == ["jwb0002"], answer
    poll(killed.exists, "the kill")


def test_files_that_the_site_will_soon_delete_are_a_notice(doctor, tmp_path):
    old = tmp_path / "old.pt"
    old.write_text("x")
    long_ago = time.time() - 85 * 86400
    os.utime(old, (long_ago, long_ago))
    result = doctor(nodes(2), "--json", "--only=scratch", "--scratch-purge-days=90", env={"SCRATCH": str(tmp_path)})
    assert result.returncode == 0, result.stdout + result.stderr
    (purge,) = [f for f in findings_of(result, "scratch") if "old.pt" in f["reason"]]
    assert (purge["status"], purge["hosts"]) == ("notice", ["jwb0001"])


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a task files of its own")
def test_nodes_with_another_plugin_profile_or_program_are_named(doctor, plugin, rollcall, tmp_path):
    """On the second of three nodes each of the files is of another build."""
    profile = SOURCE / "site_config" / "minicluster.toml"
    binds = ""
    for name, path, more in (("plugin", plugin, b"x"), ("profile", profile, b"# x\n"), ("program", rollcall, b"x")):
        (tmp_path / name).write_bytes(path.read_bytes() + more)
        (tmp_path / name).chmod(0o755)
        binds += f"mount --bind {tmp_path / name} {path} && "
    other = f"[ $SLURM_NODEID != 1 ] || exec unshare --mount --propagation=private sh -c '{binds}exec \"$@\"' task \"$@\"; exec \"$@\""
    result = doctor(nodes(3), "--json", "--no-bench", "--only=versions", before=shell(other))
    assert result.returncode == 0, result.stdout + result.stderr
    found = findings_of(result, "versions")
    assert [(f["status"], f["hosts"], f["reason"].split()[0]) for f in found] == [
        ("notice", ["jwb0002"], "plugin"), ("notice", ["jwb0002"], "profile"), ("notice", ["jwb0002"], "program")]
    assert all("elsewhere" in f["reason"] and "docs/administrator/upgrade.md" in f["action"] for f in found)
    same = the_finding(doctor(nodes(3), "--json", "--no-bench", "--only=versions"), "versions")
    assert same["status"] == "good" and "plugin " in same["reason"] and "profile minicluster (" in same["reason"]
