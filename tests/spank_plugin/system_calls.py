"""Traces a process tree with strace, and reports the user with whose rights each file was opened and each program started."""

import re
import shutil
import signal
import subprocess

CALL = re.compile(r"^(?P<pid>\d+) +(?P<resumed><\.\.\. )?(?P<name>\w+)(?: resumed>)?(?P<rest>.*)$")
UNFINISHED = " <unfinished ...>"
BEGINS_CHILD = ("clone", "clone3", "fork", "vfork")


class Watch:
    """`with Watch(pids, file) as watch: ...`; afterwards watch.calls() has (name, text, effective user id)."""

    def __init__(self, pids, log):
        self.log = log
        traced = "openat,open,execve,setuid,setreuid,setresuid,clone,clone3,fork,vfork"
        self.command = ["strace", "-f", "-s", "4096", "-o", str(log), "-e", f"trace={traced}"]
        self.pids = pids

    def __enter__(self):
        attach = [argument for pid in self.pids for argument in ("-p", str(pid))]
        self.strace = subprocess.Popen([*self.command, *attach], stderr=subprocess.PIPE, text=True)
        for _ in self.pids:
            line = self.strace.stderr.readline()
            if "attached" not in line:
                self.strace.kill()
                self.strace.wait()
                raise PermissionError(line.strip())
        return self

    def __exit__(self, *_):
        self.strace.send_signal(signal.SIGINT)  # detaches; the watched processes go on
        try:
            self.strace.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            self.strace.kill()
            self.strace.communicate()

    def calls(self):
        found = whole_calls(self.log.read_text(errors="replace").splitlines())
        parent = {}
        for call in found:
            child = re.search(r"= (\d+)$", call["rest"])
            if call["name"] in BEGINS_CHILD and child:
                parent[child[1]] = call["pid"]
        user = {}
        for call in found:
            pid = call["pid"]
            user.setdefault(pid, user.get(parent.get(pid), 0))
            changed = new_effective_user(call["name"], call["rest"])
            user[pid] = user[pid] if changed is None else changed
            yield call["name"], call["rest"], user[pid]


def whole_calls(lines):
    """The calls in the order in which they returned; strace prints one that others interrupt in two halves."""
    begun, found = {}, []
    for match in filter(None, map(CALL.match, lines)):
        call = match.groupdict()
        if call["resumed"]:
            call["rest"] = begun.pop(call["pid"], "") + call["rest"]
        if call["rest"].endswith(UNFINISHED):
            begun[call["pid"]] = call["rest"].removesuffix(UNFINISHED)
        else:
            found.append(call)
    return found


def new_effective_user(name, rest):
    """The effective user id that a successful call leaves behind, or None."""
    if not rest.rstrip().endswith("= 0"):
        return None
    numbers = [int(number) for number in re.findall(r"-?\d+", rest.split(")")[0])]
    position = {"setuid": 0, "setreuid": 1, "setresuid": 1}.get(name)
    if position is None or len(numbers) <= position or numbers[position] == -1:
        return None
    return numbers[position]


def missing():
    """Why nothing can be watched here, or None."""
    return None if shutil.which("strace") else "strace is not installed"
