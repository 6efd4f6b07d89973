"""`rollcall run` on one node: real workers that succeed, fail, hang and are killed."""
import json
import os
import re
import signal
import subprocess
import time

import pytest

from agents import DEADLINE, ROLLCALL, end_all, environment, free_port, lines, living_in_sessions_with, run, script, start, torchrun

pytestmark = [pytest.mark.python, pytest.mark.skipif(not ROLLCALL.exists(), reason=f"{ROLLCALL} is not built")]


@pytest.fixture(autouse=True)
def end_processes_afterwards():
    yield
    end_all()


def wait_for(condition):
    end = time.monotonic() + DEADLINE
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.01)
    raise AssertionError("it did not happen")


# ---------------------------------------------------------------- what workers get

PRINT_VARIABLES = """
    import json, os
    with open(os.path.join(os.environ["ANSWERS"], os.environ["RANK"]), "w") as answer:
        json.dump(dict(os.environ), answer)
"""
EXPECTED_DIFFERENCES = {  # that differ between two runs, or by design
    "TORCHELASTIC_ERROR_FILE", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_USE_AGENT_STORE", "MASTER_ADDR", "MASTER_PORT", "ANSWERS",
    "TORCHELASTIC_SIGNALS_TO_HANDLE", "ROLLCALL_AGENT_LINK", "ROLLCALL_GENERATION", "ROLLCALL_RUN", "ROLLCALL_SECRET_FD"}


def variables(launch, folder, name, *options):
    answers = folder / name
    answers.mkdir()
    done = launch(*options, script(folder, PRINT_VARIABLES), env={"ANSWERS": str(answers)})
    assert done.returncode == 0, done.stderr
    return [json.loads((answers / str(rank)).read_text()) for rank in range(len(list(answers.iterdir())))]


@pytest.mark.parametrize("options", [
    ["--standalone", "--nproc_per_node=2", "--max-restarts", "3"],
    ["--nproc-per-node=2", "--master-port={port}", "--role=trainer"],
    ["--nproc-per-node=1"],
])
def test_workers_get_torchruns_variables(tmp_path, options):
    pytest.importorskip("torch")
    options = [option.format(port=free_port()) for option in options]
    ours = variables(run, tmp_path, "ours", *options)
    theirs = variables(torchrun, tmp_path, "theirs", *options)
    assert len(ours) == len(theirs)
    for own, other in zip(ours, theirs):
        differing = {name for name in own.keys() | other.keys() if own.get(name) != other.get(name)}
        assert differing <= EXPECTED_DIFFERENCES, differing
        if any("master-port" in option for option in options):
            assert (own["MASTER_ADDR"], own["MASTER_PORT"]) == (other["MASTER_ADDR"], other["MASTER_PORT"])


def test_a_gloo_all_reduce_and_ddp_step_work_unchanged(tmp_path):
    pytest.importorskip("torch")
    program = script(tmp_path, """
        import os, sys, torch, torch.distributed as dist
        dist.init_process_group("gloo")
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 1))
        model(torch.ones(2, 3)).sum().backward()
        total = torch.tensor([dist.get_rank() + 1.0])
        dist.all_reduce(total)
        sys.stdout.write(f"sum {total.item()}\\n")
        sys.stdout.flush()
        dist.destroy_process_group()
        os._exit(0)  # else one of Gloo's threads may end the process with SIGABRT: docs/user/frameworks.md
    """)
    done = run("--nproc-per-node=2", program)
    assert done.returncode == 0, done.stderr
    assert lines(done.stdout) == ["sum 3.0", "sum 3.0"]


def test_workers_keep_their_open_file_limit(tmp_path):
    """The agent itself raises its limit to the maximum."""
    done = subprocess.run(["bash", "-c", f"ulimit -Sn 300; exec {ROLLCALL} run --no-python bash -c 'ulimit -Sn; ulimit -Hn'"],
                          env=environment(), capture_output=True, text=True, timeout=DEADLINE)
    soft, hard = lines(done.stdout)
    assert soft == "300" and hard != "300", done.stderr


def test_an_error_file_is_not_written_through_a_link(tmp_path):
    mine = tmp_path / "mine"
    mine.write_text("kept")
    (tmp_path / "error.json").symlink_to(mine)
    program = script(tmp_path, """
        import json, os, sys
        with open(os.environ["TORCHELASTIC_ERROR_FILE"], "w") as file:
            json.dump({"message": {"message": "bad batch", "extraInfo": {"timestamp": "1"}}}, file)
        sys.exit(3)
    """)
    done = run(program, env={"TORCHELASTIC_ERROR_FILE": str(tmp_path / "error.json")})
    assert done.returncode == 3 and "bad batch" in done.stderr
    assert mine.read_text() == "kept"


def test_modules_no_python_and_macros_work_as_in_torchrun(tmp_path):
    script(tmp_path, "import sys; print('module', sys.argv[1:])", "thing.py")
    done = run("-m", "thing", "a", "--b", cwd=tmp_path)
    assert done.stdout == "module ['a', '--b']\n"
    done = run("-m", "thing", "--", "--depth=12", cwd=tmp_path)
    assert done.stdout == "module ['--depth=12']\n"
    done = run("--no-python", "--nproc-per-node=2", "/bin/echo", "${local_rank}", "$$x", "${other}")
    assert sorted(lines(done.stdout)) == ["0 $x ${other}", "1 $x ${other}"]


# ---------------------------------------------------------------- failures

def test_the_first_failure_is_reported_and_gives_the_exit_code(tmp_path):
    program = script(tmp_path, """
        import os, sys, time
        if os.environ["RANK"] == "1":
            sys.exit(7)
        time.sleep(1000)
    """)
    done = run("--nproc-per-node=3", program)
    assert done.returncode == 7
    assert re.search(rf"^rollcall: run: rank 1 \(local rank 1, pid \d+\) on {re.escape(os.uname().nodename)}: exit code 7; try ",
                     done.stderr, re.M)
    assert not living_in_sessions_with(str(program))


def test_the_oldest_error_file_gives_the_cause_and_is_passed_on(tmp_path):
    """Rank 0 wrote its error file first and ended last: it is the cause."""
    program = script(tmp_path, """
        import json, os, sys, time
        def record(text):
            with open(os.environ["TORCHELASTIC_ERROR_FILE"], "w") as file:
                json.dump({"message": {"message": text, "extraInfo": {"py_callstack": "...", "timestamp": "1"}}}, file)
        first = os.path.join(os.path.dirname(__file__), "first")
        if os.environ["RANK"] == "0":
            record("ValueError: the cause\\nsecond line")
            open(first, "w").close()
            time.sleep(0.5)
            sys.exit(3)
        while not os.path.exists(first):
            time.sleep(0.01)
        time.sleep(0.05)
        record("RuntimeError: connection closed by peer")
        sys.exit(1)
    """)
    own = tmp_path / "own.json"
    done = run("--nproc-per-node=2", program, env={"TORCHELASTIC_ERROR_FILE": str(own)})
    assert "rank 0 " in done.stderr and "ValueError: the cause" in done.stderr and "second line" not in done.stderr
    handed = json.loads(own.read_text())["message"]
    assert handed["message"].startswith("ValueError: the cause")
    assert handed["errorCode"] in (3, -15)


def test_run_path_records_exceptions_and_otherwise_acts_like_python(tmp_path):
    script(tmp_path, "VALUE = 7", "beside.py")
    program = script(tmp_path, """
        import sys, beside
        print(__name__, sys.argv[1:], beside.VALUE, __file__)
        sys.exit(3) if sys.argv[1:] else None
        raise ValueError("of the script")
    """)
    own = tmp_path / "own.json"
    done = run("--run-path", program, env={"TORCHELASTIC_ERROR_FILE": str(own)})
    assert (done.returncode, done.stdout) == (1, f"__main__ [] 7 {program}\n")
    assert "exit code 1: ValueError: of the script" in done.stderr
    assert json.loads(own.read_text())["message"]["message"] == "ValueError: of the script"
    done = run("--run-path", program, "a", "--b")
    assert (done.returncode, done.stdout) == (3, f"__main__ ['a', '--b'] 7 {program}\n")


def test_error_files_of_torchs_record_are_read(tmp_path):
    pytest.importorskip("torch")
    program = script(tmp_path, """
        from torch.distributed.elastic.multiprocessing.errors import record
        @record
        def main():
            raise ValueError("as torch writes it")
        main()
    """)
    done = run(program)
    assert done.returncode == 1
    assert "exit code 1: ValueError: as torch writes it" in done.stderr


def test_a_killed_worker_is_reported_as_the_cause(tmp_path):
    program = script(tmp_path, """
        import os, signal, sys, time
        if os.environ["RANK"] == "2":
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(1000)
    """)
    done = run("--nproc-per-node=3", program)
    assert done.returncode == 128 + signal.SIGKILL
    assert "rank 2 " in done.stderr and "killed by signal 9 (SIGKILL)" in done.stderr


def test_all_workers_restart_up_to_max_restarts(tmp_path):
    program = script(tmp_path, """
        import os, sys, time
        count = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
        sys.stdout.write(f"{os.environ['RANK']} {count} {os.environ['MASTER_PORT']}\\n")  # one write: lines stay whole
        if count < 2:
            if os.environ["RANK"] == "0":
                time.sleep(1000)
            sys.exit(1)
    """)
    done = run("--nproc-per-node=2", "--max-restarts=2", program)
    assert done.returncode == 0, done.stderr
    seen = {tuple(line.split()[:2]) for line in lines(done.stdout)}
    assert {("1", "0"), ("1", "1"), ("1", "2"), ("0", "2")} <= seen
    ports = {line.split()[1]: line.split()[2] for line in lines(done.stdout)}
    assert len(set(ports.values())) == 3, "each generation has a port of its own"
    done = run("--nproc-per-node=2", "--max-restarts=1", program)
    assert done.returncode == 1
    assert "after 1 restart)" in done.stderr


def test_sessions_that_ignore_sigterm_are_killed_after_the_timeout(tmp_path):
    mark = f"marked-{os.getpid()}-{tmp_path.name}"
    program = script(tmp_path, f"""
        import os, signal, subprocess, sys, time
        ready = os.path.join(os.path.dirname(__file__), "ready")
        if os.environ["RANK"] == "0":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)", "{mark}"], process_group=0)
            open(ready, "w").close()
            time.sleep(1000)
        while not os.path.exists(ready):
            time.sleep(0.01)
        sys.exit(5)
    """)
    done = run("--nproc-per-node=2", "--shutdown-timeout=1", program)
    assert done.returncode == 5
    assert not living_in_sessions_with(mark)


@pytest.mark.parametrize("code", [0, 5])
def test_child_processes_are_killed_after_a_failure_but_not_after_success(tmp_path, code):
    mark = f"marked-{os.getpid()}-{tmp_path.name}"
    program = script(tmp_path, f"""
        import subprocess, sys
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)", "{mark}"])
        sys.exit({code})
    """)
    done = run("--max-restarts=1", "--redirects=3", f"--log-dir={tmp_path}/logs", program)
    assert done.returncode == code
    left = living_in_sessions_with(mark)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert len(left) == (0 if code else 1)


def test_a_missing_program_is_one_error_line_and_exit_code_127(tmp_path):
    done = run("--no-python", tmp_path / "absent")
    assert (done.returncode, len(lines(done.stderr))) == (127, 1)
    done = run("work.py", env={"PYTHON_EXEC": "", "PATH": str(tmp_path)})
    assert done.returncode == 127 and "PYTHON_EXEC" in done.stderr


@pytest.mark.parametrize("word", ["./work", "work"])
def test_a_non_executable_program_is_one_error_line_and_exit_code_126(tmp_path, word):
    (tmp_path / "work").write_text("echo\n")
    done = run("--no-python", word, env={"PATH": f"/usr/bin:/bin:{tmp_path}"}, cwd=tmp_path)
    assert done.returncode == 126
    assert len(lines(done.stderr)) == 1 and "work: cannot be executed" in done.stderr


def test_a_folder_of_that_name_in_the_path_is_no_program(tmp_path):
    (tmp_path / "work").mkdir()
    done = run("--no-python", "work", env={"PATH": f"{tmp_path}:/usr/bin:/bin"})
    assert done.returncode == 127 and "work: is not an executable program" in done.stderr


# ---------------------------------------------------------------- signals

# Waits for a signal and leaves with a code. A handler would not do: it may run just before the program goes to sleep, and
# Python then acts on it when the sleep is over. Nor print(): unbuffered, it writes the text and the end of the line apart,
# and another worker's come between.
LEAVE_WITH = """
    import signal, sys
    signal.pthread_sigmask(signal.SIG_BLOCK, {{signal.{signal}}})
    sys.stdout.write("ready\\n")
    signal.sigwait({{signal.{signal}}})
    sys.stdout.write("heard\\n")
    sys.exit({code})
"""
JUST_WAIT = "import sys, time; sys.stdout.write('ready\\n'); time.sleep(1000)"


@pytest.mark.parametrize("text, expected", [
    (LEAVE_WITH.format(signal="SIGTERM", code=0), 0),
    (LEAVE_WITH.format(signal="SIGTERM", code=75), 75),
    (JUST_WAIT, 128 + signal.SIGTERM),
])
def test_sigterm_is_forwarded_and_the_workers_give_the_exit_code(tmp_path, text, expected):
    program = script(tmp_path, text)
    agent = start("--nproc-per-node=2", "--max-restarts=3", program)
    assert agent.stdout.readline() + agent.stdout.readline() == "ready\nready\n"
    agent.send_signal(signal.SIGTERM)
    said, told = agent.communicate(timeout=DEADLINE)
    assert agent.returncode == expected, (said, told)
    assert said == ("" if text is JUST_WAIT else "heard\nheard\n")
    assert not living_in_sessions_with(str(program))


def test_sigusr1_is_forwarded_without_ending_the_run(tmp_path):
    program = script(tmp_path, LEAVE_WITH.format(signal="SIGUSR1", code=0))
    agent = start(program)
    assert agent.stdout.readline() == "ready\n"
    agent.send_signal(signal.SIGUSR1)
    assert agent.communicate(timeout=DEADLINE)[0] == "heard\n"
    assert agent.returncode == 0


def test_workers_do_not_outlive_an_agent_that_is_killed(tmp_path):
    program = script(tmp_path, JUST_WAIT)
    agent = start("--nproc-per-node=2", program)
    agent.stdout.readline()
    agent.stdout.readline()
    agent.kill()
    agent.wait()
    wait_for(lambda: not living_in_sessions_with(str(program)))


def test_an_ignored_sighup_does_not_end_the_run(tmp_path):
    program = script(tmp_path, LEAVE_WITH.format(signal="SIGUSR1", code=0))
    agent = start(program, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    assert agent.stdout.readline() == "ready\n"
    agent.send_signal(signal.SIGHUP)
    agent.send_signal(signal.SIGUSR1)
    assert agent.communicate(timeout=DEADLINE)[0] == "heard\n"
    assert agent.returncode == 0


def test_two_signals_at_once_count_once_and_a_repeated_one_kills(tmp_path):
    """systemd sends TERM and HUP together: workers still get their shutdown time."""
    program = script(tmp_path, """
        import signal, sys, time
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGHUP})
        sys.stdout.write("ready\\n")
        signal.sigwait({signal.SIGTERM, signal.SIGHUP})
        sys.stdout.write("saving\\n")
        if len(sys.argv) > 1:
            time.sleep(1000)
        sys.exit(75)
    """)
    agent = start(program)
    assert agent.stdout.readline() == "ready\n"
    agent.send_signal(signal.SIGSTOP)
    agent.send_signal(signal.SIGTERM)
    agent.send_signal(signal.SIGHUP)
    agent.send_signal(signal.SIGCONT)
    assert agent.communicate(timeout=DEADLINE)[0] == "saving\n" and agent.returncode == 75
    agent = start(program, "for-ever")
    assert agent.stdout.readline() == "ready\n"
    agent.send_signal(signal.SIGTERM)
    assert agent.stdout.readline() == "saving\n"
    agent.send_signal(signal.SIGTERM)
    agent.communicate(timeout=DEADLINE)
    assert agent.returncode == 128 + signal.SIGTERM


# ---------------------------------------------------------------- terminals

TWO_GENERATIONS = """
    import os, pathlib, sys
    if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        sys.stdout.write(("x" * 99 + "\\n") * int(sys.argv[1]))
        sys.stdout.flush()
        sys.exit(5)
    pathlib.Path(__file__).with_name("second").touch()
"""


def test_a_closed_terminal_does_not_end_the_run(tmp_path):
    program = script(tmp_path, TWO_GENERATIONS)
    agent = start("--tee=3", f"--log-dir={tmp_path}/logs", "--max-restarts=1", program, 20_000)
    agent.stdout.close()
    agent.stderr.close()
    assert agent.wait(DEADLINE) == 0 and (tmp_path / "second").exists()
    [log] = tmp_path.glob("logs/*/attempt_0/0/stdout.log")
    assert log.stat().st_size == 2_000_000


def test_a_stalled_terminal_does_not_delay_the_next_generation(tmp_path):
    program = script(tmp_path, TWO_GENERATIONS)
    # Nobody reads what it shows: of this much the terminal's pipe takes a part, and the rest is in the worker's when it ends.
    agent = start("--tee=1", f"--log-dir={tmp_path}/logs", "--max-restarts=1", program, 1000)
    wait_for((tmp_path / "second").exists)
    assert agent.poll() is None
    said, _ = agent.communicate(timeout=DEADLINE)
    assert agent.returncode == 0 and said.count("\n") == 1000


@pytest.mark.long
@pytest.mark.parametrize("code, both", [(0, False), (5, True)])
def test_a_run_ends_although_its_output_is_not_read(tmp_path, code, both):
    """And prints why, if standard error is read."""
    program = script(tmp_path, f"""
        import sys
        sys.stdout.write(("x" * 99 + "\\n") * 20_000)
        sys.stdout.flush()
        sys.exit({code})
    """)
    command = [ROLLCALL, "run", "--tee=3", f"--log-dir={tmp_path}/logs", program]
    agent = subprocess.Popen(command, env=environment(), text=True, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT if both else subprocess.PIPE)
    try:
        assert agent.wait(DEADLINE) == code
        assert both or "rollcall: warning: --tee: standard output: accepted nothing for 15 s" in agent.stderr.read()
        [log] = tmp_path.glob("logs/*/attempt_0/0/stdout.log")
        assert log.stat().st_size == 2_000_000
    finally:
        agent.kill()
        agent.communicate()


# ---------------------------------------------------------------- bad input

@pytest.mark.parametrize("arguments, code, words", [
    (["--nproc-per-nod3=2", "x.py"], 64, "--nproc-per-node"),
    (["--n", "x.py"], 64, "is ambiguous"),
    (["--nnodes=3:1", "x.py"], 64, "--nnodes=1:3"),
    (["--nnodes=0", "x.py"], 64, "must be a number of nodes or a range"),
    (["--nproc-per-node=some", "x.py"], 64, "must be a number of workers"),
    (["--nproc-per-node=0", "x.py"], 64, "must be a number of workers"),
    (["--rdzv-backend=etcd", "--rdzv-endpoint=h:1", "x.py"], 64, "meet without a server"),
    (["--rdzv-backend=etcd-v2", "--rdzv-endpoint=h:1", "x.py"], 64, "meet without a server"),
    (["--rdzv-backend=c10", "x.py"], 64, "is unknown"),
    (["--logs-specs=mine", "x.py"], 64, "is a Python plugin"),
    (["--max-restarts=-1", "x.py"], 64, "--max-restarts"),
    (["--redirects=4", "x.py"], 64, "must be 0, 1, 2 or 3, or a list by local rank"),
    (["--signals-to-handle=SIGNO", "x.py"], 64, "is not a signal"),
    (["-m", "--no-python", "x"], 64, "contradicts"),
    (["--rdzv-conf=join_timeout=3s", "x.py"], 64, "join_timeout"),
    (["--rdzv-conf=is_host=maybe", "x.py"], 64, "is_host=true"),
    (["--rdzv-conf=store_type=file", "x.py"], 64, "store_type=tcp"),
    (["--standalone", "--nnodes=2", "x.py"], 64, "contradicts --standalone"),
    (["--standalone=1", "x.py"], 64, "takes no value"),
    (["--nproc-per-node"], 64, "needs a value"),
    ([], 64, "no program is given"),
    (["--nnodes=2", "--node-rank=2", "x.py"], 64, "must be below the number of nodes, 2"),
])
def test_invalid_options_are_one_error_line_with_a_remedy(arguments, code, words):
    done = run(*arguments)
    assert done.returncode == code
    assert len(lines(done.stderr)) == 1 and done.stderr.startswith("rollcall: ")
    assert words in done.stderr and "; try " in done.stderr


def test_rdzv_conf_keys_without_effect_are_warned_of(tmp_path):
    """As torchrun's own tests write it: the quotes belong to the first key and the last value."""
    done = run("--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{free_port()}", "--rdzv-conf='join_timeout=5,last_call_timeout=1,timeout=5'",
               "--logs-specs=default", "--no-python", "/bin/echo", "x")
    assert (done.returncode, done.stdout) == (0, "x\n")
    first, second = lines(done.stderr)
    assert first.startswith("rollcall: warning: --rdzv-conf: 'join_timeout: is not a known key")
    assert first.endswith("; try --rdzv-conf=join_timeout=VALUE")
    assert second.startswith("rollcall: warning: --rdzv-conf: timeout: has no effect with --rdzv-backend=c10d")
    quiet = run("--rdzv-conf=rank=0", "--no-python", "/bin/echo", "x", env={"SLURM_PROCID": "1"})
    assert (quiet.returncode, quiet.stderr) == (0, "")


def test_pet_variables_give_defaults_and_are_named_in_errors(tmp_path):
    done = run("--no-python", "/bin/echo", "x", env={"PET_NPROC_PER_NODE": "3"})
    assert lines(done.stdout) == ["x"] * 3
    done = run("--no-python", "/bin/echo", "x", env={"PET_MAX_RESTARTS": "many"})
    assert done.returncode == 64 and done.stderr.startswith("rollcall: PET_MAX_RESTARTS: many: ")


# ---------------------------------------------------------------- being seen

def test_status_lists_runs_as_text_and_json(tmp_path):
    program = script(tmp_path, JUST_WAIT)
    agent = start("--nproc-per-node=2", program)
    assert agent.stdout.readline() + agent.stdout.readline() == "ready\nready\n"
    (own,) = [each for each in json.loads(run("--status", "--json").stdout) if each["pid"] == agent.pid]
    assert (own["state"], own["coordinator"], own["generation"]["number"], len(own["workers"])) == ("running", True, 1, 2)
    shown = run("--status").stdout
    assert f"run {own['run_id']} (agent {agent.pid} on " in shown and "node 0: " in shown
    agent.terminate()
    agent.communicate(timeout=DEADLINE)
    assert agent.pid not in [each["pid"] for each in json.loads(run("--status", "--json").stdout)]


def test_a_worker_that_exits_with_75_is_not_restarted(tmp_path):
    program = script(tmp_path, "import sys; print('once'); sys.exit(75)")
    done = run("--max-restarts=5", program)
    assert (done.returncode, done.stdout) == (75, "once\n")
