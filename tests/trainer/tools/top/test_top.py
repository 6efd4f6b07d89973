"""rollcall-top on a terminal: any size, with and without colours, a growing record, and the terminal restored at exit."""
import fcntl
import json
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time

import pytest

pytestmark = pytest.mark.python
BUILD = pathlib.Path(os.environ["ROLLCALL_BUILD_DIR"])
ROOT = pathlib.Path(os.environ.get("ROLLCALL_SOURCE_DIR", pathlib.Path(__file__).parents[4]))
TOP = BUILD / "trainer" / "rollcall-top"
ENVIRONMENT = {**os.environ, "LANG": "C.UTF-8", "TERM": "xterm"}
for name in ("NO_COLOR", "LC_ALL", "LC_CTYPE"):
    ENVIRONMENT.pop(name, None)


def make_run(folder, *options):
    subprocess.run([sys.executable, ROOT / "benchmarks" / "report" / "make_run.py", folder, *options], check=True)
    return folder


class Terminal:
    """A program on a terminal of its own, and what it wrote."""

    def __init__(self, *command, columns=80, rows=24, env=None):
        self.master, own = pty.openpty()
        self.resize(columns, rows)
        self.before = termios.tcgetattr(own)
        self.own = own
        self.process = subprocess.Popen([str(c) for c in command], stdin=own, stdout=own, stderr=own, env={**ENVIRONMENT, **(env or {})})
        self.text = ""

    def resize(self, columns, rows):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def wait_for(self, pattern):
        self.wait_until(lambda: re.search(pattern, self.text), pattern)

    def wait_until(self, condition, what):
        end = time.monotonic() + 60
        while not condition():
            assert time.monotonic() < end, f"no {what} in {self.text!r}"
            if select.select([self.master], [], [], 0.1)[0]:
                self.text += os.read(self.master, 1 << 16).decode(errors="replace")

    def last_frame(self):
        """Lines of the last whole frame, without escape sequences."""
        whole = re.findall(r"\x1b\[H(.*?)\x1b\[J", self.text, re.S)[-1]
        return [re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", line) for line in whole.replace("\r", "").split("\n")]

    def end(self):
        self.process.wait(timeout=60)
        while select.select([self.master], [], [], 0)[0]:
            self.text += os.read(self.master, 1 << 16).decode(errors="replace")
        assert termios.tcgetattr(self.own) == self.before  # echo and line editing are back
        assert self.text.endswith("\x1b[?25h\x1b[?1049l")  # the cursor, and the screen of before
        return self.process.returncode

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.master)
        os.close(self.own)


@pytest.fixture
def terminal():
    opened = []

    def start(*command, **size):
        opened.append(Terminal(*command, **size))
        return opened[-1]
    yield start
    for one in opened:
        one.close()


def test_top_follows_a_growing_run_and_quits_on_a_key(tmp_path, terminal):
    run = make_run(tmp_path / "run", "--steps=1000", "--ranks=8", "--ranks-every=10")
    record = run / "metrics.jsonl"
    lines = record.read_text().splitlines(keepends=True)
    record.write_text("".join(lines[:300]))
    screen = terminal(TOP, "--interval=0.1", run)
    screen.wait_for(r"step (\d+)/1000[^J]*\x1b\[J")
    first = int(re.search(r"step (\d+)/1000", screen.text).group(1))
    with open(record, "a", encoding="utf-8") as file:
        file.write(lines[300][:40])
        file.flush()
        screen.wait_for("the last line has no end")
        file.write(lines[300][40:] + "".join(lines[301:]))
    screen.wait_for("step 1000/1000")
    screen.wait_for("run: finished[^J]*\x1b\\[J")
    assert first < 1000 and any("\u2588" in line for line in screen.last_frame())
    os.write(screen.master, b"q")
    assert screen.end() == 0


@pytest.mark.parametrize("columns, rows", [(80, 24), (33, 7), (200, 60)])
def test_top_fits_the_terminal_and_follows_its_size(tmp_path, terminal, columns, rows):
    run = make_run(tmp_path / "run", "--steps=500", "--ranks=64", "--ranks-every=10")
    screen = terminal(TOP, "--interval=0.1", run, columns=columns, rows=rows)
    screen.wait_for(r"\x1b\[J")
    assert len(screen.last_frame()) <= rows and max(map(len, screen.last_frame())) <= columns
    screen.resize(50, 12)
    screen.wait_until(lambda: len(screen.last_frame()) == 12 and max(map(len, screen.last_frame())) <= 50, "frame of the new size")
    screen.process.send_signal(signal.SIGTERM)
    assert screen.end() == 0


@pytest.mark.skipif(shutil.which("tmux") is None, reason="no tmux (Debian's package tmux)")
def test_top_works_in_tmux(tmp_path):
    """The screen as tmux shows it, in two sizes, and restored afterwards."""
    run = make_run(tmp_path / "run", "--steps=1000", "--ranks=8", "--ranks-every=10")

    def tmux(*command):
        return subprocess.run(["tmux", "-S", tmp_path / "socket", "-f", "/dev/null", *command], check=True, capture_output=True, text=True,
                              env=ENVIRONMENT).stdout

    def wait_for(pattern):
        end = time.monotonic() + 60
        while not re.search(pattern, tmux("capture-pane", "-p", "-t", "top")):
            assert time.monotonic() < end, tmux("capture-pane", "-p", "-t", "top")
        return tmux("capture-pane", "-p", "-t", "top").splitlines()

    tmux("new-session", "-d", "-s", "top", "-x", "80", "-y", "24", "sh")
    try:
        tmux("set-option", "-t", "top", "status", "off")
        tmux("send-keys", "-t", "top", f"{TOP} --interval=0.1 {run}", "Enter")
        screen = wait_for("step 1000/1000")
        assert len(screen) <= 24 and max(map(len, screen)) <= 80 and any("\u2588" in line for line in screen)
        tmux("resize-window", "-t", "top", "-x", "120", "-y", "40")
        assert wait_for(r"(?m)^.{81,}$")
        tmux("send-keys", "-t", "top", "q")
        # The screen of before, with the command that was typed, wherever it is wrapped.
        wait_for(r"\s*".join(map(re.escape, str(run)[-30:])))
        assert not any("\u2588" in line for line in tmux("capture-pane", "-p", "-t", "top").splitlines())
    finally:
        tmux("kill-server")


def test_no_color_disables_colours_of_top(tmp_path, terminal):
    run = make_run(tmp_path / "run", "--steps=100")
    coloured, plain = terminal(TOP, run), terminal(TOP, run, env={"NO_COLOR": "1"})
    for screen in (coloured, plain):
        screen.wait_for(r"\x1b\[J")
    assert "\x1b[1m" in coloured.text and not re.search(r"\x1b\[[0-9;]*m", plain.text)


def test_top_once_prints_a_frame_or_json_of_the_newest_run(tmp_path):
    for name, steps in (("old", 100), ("new", 200)):
        make_run(tmp_path / "rollcall" / name, f"--steps={steps}")
    os.utime(tmp_path / "rollcall" / "old" / "metrics.jsonl", (1, 1))
    env = {**ENVIRONMENT, "SCRATCH": str(tmp_path)}
    frame = subprocess.run([TOP, "--once"], capture_output=True, text=True, check=True, env=env).stdout
    assert "step 200/200" in frame and "\x1b" not in frame and len(frame.splitlines()) <= 24
    found = json.loads(subprocess.run([TOP, "--once", "--json"], capture_output=True, text=True, check=True, env=env).stdout)
    assert (found["run"], found["step"], found["ended"]) == ("new", 200, True)
    without = subprocess.run([TOP], capture_output=True, text=True, check=False, env=env)
    assert without.returncode == 64 and "is not a terminal" in without.stderr
    none = subprocess.run([TOP, "--once"], capture_output=True, text=True, check=False, env={**env, "SCRATCH": "/nonexistent"})
    assert none.returncode == 66 and "holds no run" in none.stderr


def test_top_shows_no_extra_epoch_and_no_eta_of_a_dead_run(tmp_path):
    begin = {"event": "begin", "schema": 1, "step": 0, "ranks": 1, "nodes": 1, "epochs": 2, "steps_of_epoch": 5, "max_steps": 0, "time": 1000}
    steps = [{"event": "step", "step": step, "epoch": 1, "loss": 2, "top1": 0.5, "steps": 1, "seconds": 1, "time": 1000 + step}
             for step in range(1, 11)]
    for_epoch = {"event": "epoch", "epoch": 1, "step": 10, "time": 1011}

    def shown(*records):
        (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
        return subprocess.run([TOP, "--once", tmp_path], capture_output=True, text=True, check=True, env=ENVIRONMENT).stdout
    assert "epoch 2/2 " in shown(begin, *steps, for_epoch)
    assert "ETA" not in shown(begin, *steps[:4])
    (tmp_path / "lease.json").write_text("{}")
    assert "ETA 6 s" in shown(begin, *steps[:4])


@pytest.mark.parametrize("name", ["top", "report", "checkpoint", "pack"])
def test_rollcall_help_covers_separate_programs(name):
    environment = {**ENVIRONMENT, "PATH": f"{BUILD / 'trainer'}:{os.environ['PATH']}"}
    done = subprocess.run([BUILD / "runtime" / "rollcall", "help", name], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0 and f"usage: rollcall-{name} " in done.stdout, done.stderr
