"""The output and log files of the workers of `rollcall run`."""
import os
import pty
import select
import subprocess

import pytest

from agents import DEADLINE, ROLLCALL, environment, lines, run, script, start, wait_until

pytestmark = [pytest.mark.python, pytest.mark.skipif(not ROLLCALL.exists(), reason=f"{ROLLCALL} is not built")]

PRINT_BOTH = """
    import os, sys
    sys.stdout.write(f"out {os.environ['RANK']}\\n")
    sys.stderr.write(f"err {os.environ['RANK']}\\n")
"""


def test_log_files_have_torchruns_paths(tmp_path):
    program = script(tmp_path, PRINT_BOTH)
    done = run("--nproc-per-node=2", "--rdzv-id=job", "--master-port=29599", "--log-dir", tmp_path / "logs", "-r", "0:3,1:1",
               "-t", "1:2", program)
    assert done.returncode == 0, done.stderr
    (folder,) = (tmp_path / "logs").iterdir()
    assert folder.name.startswith("job_")
    files = {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*.log")}
    assert files == {"attempt_0/0/stdout.log": "out 0\n", "attempt_0/0/stderr.log": "err 0\n",
                     "attempt_0/1/stdout.log": "out 1\n", "attempt_0/1/stderr.log": "err 1\n"}
    assert done.stdout == "" and "[default1]:err 1\n" in done.stderr


def test_tee_prints_complete_filtered_lines_with_the_worker_prefix(tmp_path):
    program = script(tmp_path, """
        import os, sys
        for number in range(2000):
            sys.stdout.write(f"line {number} " + "x" * (number % 300) + "\\n")
        sys.stdout.write("progress 1\\rprogress 2\\rlast without end")
    """)
    done = run("--nproc-per-node=2", "-t", "1", "--log-dir", tmp_path / "logs", "--log-line-prefix-template",
               "<${role_name}:${rank}>", "--duplicate-stdout-filters=line 17 ,last", program)
    shown = lines(done.stdout)
    for rank in "01":
        own = [line.removeprefix(f"<default:{rank}>") for line in shown if line.startswith(f"<default:{rank}>")]
        assert own == [f"line {n} " + "x" * (n % 300) for n in range(2000)] + ["progress 1", "progress 2", "last without end"]
    (filtered,) = (tmp_path / "logs").rglob("filtered_stdout.log")
    assert len(lines(filtered.read_text())) == 4


def test_local_ranks_filter_limits_the_output_but_not_the_files(tmp_path):
    program = script(tmp_path, PRINT_BOTH)
    done = run("--nproc-per-node=2", "--local-ranks-filter=1", "-t", "0:1,1:1", "--log-dir", tmp_path / "logs", program)
    assert done.stdout == "[default1]:out 1\n"
    assert "err 1" in done.stderr and "err 0" not in done.stderr
    assert sorted(p.read_text() for p in (tmp_path / "logs").rglob("stdout.log")) == ["out 0\n", "out 1\n"]


def test_each_attempt_keeps_its_files(tmp_path):
    program = script(tmp_path, """
        import os, sys
        print(os.environ["TORCHELASTIC_RESTART_COUNT"])
        sys.exit(os.environ["TORCHELASTIC_RESTART_COUNT"] != "1")
    """)
    assert run("--max-restarts=1", "-r", "3", "--log-dir", tmp_path / "logs", program).returncode == 0
    (folder,) = (tmp_path / "logs").iterdir()
    assert [(folder / f"attempt_{n}/0/stdout.log").read_text() for n in (0, 1)] == ["0\n", "1\n"]


def test_a_run_leaves_no_files_in_tmpdir(tmp_path):
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    run("--no-python", "/bin/true", env={"TMPDIR": str(temporary)})
    assert list(temporary.iterdir()) == []


def test_an_uncreatable_log_folder_is_one_error_line_and_exit_code_73(tmp_path):
    (tmp_path / "file").write_text("")
    done = run("--log-dir", tmp_path / "file" / "logs", "-r", "3", "--no-python", "/bin/true")
    assert (done.returncode, len(lines(done.stderr))) == (73, 1)
    assert done.stderr.startswith("rollcall: --log-dir: ")


@pytest.mark.parametrize("options", [["--tee=3"], ["--redirects=3"], ["--local-ranks-filter=99"]])
def test_too_few_file_descriptors_are_an_error_with_a_remedy(tmp_path, options):
    command = f'ulimit -n 60; exec "$0" run --nproc-per-node=60 --log-dir={tmp_path}/logs {" ".join(options)} --no-python /bin/sleep 1000'
    done = subprocess.run(["bash", "-c", command, ROLLCALL], env=environment(), text=True, capture_output=True, timeout=DEADLINE, check=False)
    assert done.returncode and "Too many open files" in done.stderr
    assert "; try raising ulimit -n" in lines(done.stderr)[-1]


def test_a_full_disk_loses_the_log_but_does_not_end_the_run(tmp_path):
    """A disk of 64 KiB, which the worker fills before it writes."""
    disk = tmp_path / "disk"
    disk.mkdir()
    program = script(tmp_path, f"""
        with open({str(disk / "filler")!r}, "wb", buffering=0) as filler:
            try:
                while filler.write(bytes(4096)):
                    pass
            except OSError:
                pass
        for number in range(3):
            print("line", number, flush=True)
    """)
    mount = 'mount -t tmpfs -o size=64k none "$1" || exit 99; shift; exec "$@"'
    command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount, "sh", disk, ROLLCALL, "run", "-t", "1",
               "--log-dir", disk / "logs", program]
    done = subprocess.run([str(word) for word in command], env=environment(), text=True, capture_output=True, timeout=DEADLINE, check=False)
    if done.returncode == 99 or done.stderr.startswith("unshare: "):
        pytest.skip(f"no file system can be mounted here: {done.stderr}")
    assert done.returncode == 0, done.stderr
    assert lines(done.stdout) == [f"[default0]:line {n}" for n in range(3)]
    assert done.stderr.count("No space left on device") == 1


@pytest.mark.long
@pytest.mark.parametrize("open_ends, tee", [(pty.openpty, "1"), (pty.openpty, "3"), (os.pipe, "3")])
def test_an_unread_terminal_or_pipe_blocks_neither_the_workers_nor_the_end(tmp_path, open_ends, tee):
    """Unlike a pipe, a terminal that polls as writable may not accept a whole line. The run's own messages go there as well."""
    count = 20_000
    program = script(tmp_path, f"""
        import sys
        for number in range({count}):
            sys.stdout.write(f"line {{number}}\\n")
            sys.stderr.write(f"line {{number}}\\n")
        sys.exit(3)
    """)
    reader, writer = open_ends()
    agent = subprocess.Popen([str(word) for word in (ROLLCALL, "run", "-t", tee, "-r", "3", "--log-dir", tmp_path / "logs", program)],
                             env=environment(), stdin=subprocess.DEVNULL, stdout=writer, stderr=writer)
    try:
        code = agent.wait(timeout=DEADLINE)
    finally:
        agent.kill()
        agent.wait()
        os.close(writer)
        os.close(reader)
    assert code == 3
    files = [path.read_text() for path in (tmp_path / "logs").rglob("std*.log")]
    assert files == ["".join(f"line {number}\n" for number in range(count))] * 2


def test_the_next_run_removes_the_files_of_a_killed_agent(tmp_path):
    """But not those of a running agent, nor requested logs."""
    work = script(tmp_path, """
        import os, sys, time
        open(os.environ["TORCHELASTIC_ERROR_FILE"] + ".begun", "w").close()
        while not os.path.exists(sys.argv[1]):
            time.sleep(0.01)
    """)
    env = {"TMPDIR": str(tmp_path)}
    killed, lives, logs = (start(*options, work, tmp_path / "go", env=env) for options in ((), (), ("--redirects=3",)))
    wait_until(lambda: len(list(tmp_path.rglob("error.json.begun"))) == 3)
    of_logs = next(path.parents[1] for path in tmp_path.rglob("stdout.log"))
    folders = {path for path in tmp_path.glob("rollcall_run_*") if path not in of_logs.parents}
    killed.kill()
    killed.communicate()
    logs.kill()
    logs.communicate()
    link = tmp_path / (next(path.name for path in folders)[:-2] + "-1")
    link.symlink_to(of_logs)
    assert run("--no-python", "true", env=env).returncode == 0
    left = {path for path in folders if path.exists()}
    assert len(folders) == 2 and len(left) == 1 and of_logs.exists() and link.is_symlink()
    (tmp_path / "go").write_text("")
    assert lives.wait(timeout=DEADLINE) == 0
    assert not any(path.exists() for path in folders) and of_logs.exists()


def fill(terminal, most=1 << 30):
    """Writes up to `most` bytes to an unread terminal, until it accepts no more. Returns the number written."""
    os.set_blocking(terminal, False)
    taken = 0
    while taken < most and select.select([], [terminal], [], 1)[1]:
        taken += os.write(terminal, b"x" * min(256, most - taken))
    os.set_blocking(terminal, True)
    return taken


@pytest.mark.long
def test_the_run_ends_although_its_last_line_does_not_fit_the_terminal(tmp_path):
    ends = [pty.openpty() for _ in range(2)]
    (_, other), (_, terminal) = ends
    fill(terminal, fill(other) - 512)
    agent = subprocess.Popen([ROLLCALL, "run", f"--nproc-per-node={'x' * 1000}", "work.py"], env=environment(), stdin=subprocess.DEVNULL,
                             stdout=subprocess.DEVNULL, stderr=terminal)
    try:
        assert agent.wait(timeout=DEADLINE) == 64
    finally:
        agent.kill()
        agent.wait()
        for descriptor in (end for pair in ends for end in pair):
            os.close(descriptor)
