"""What a process and all its descendants use, and what the machine's CPUs do, from /proc."""
import os
import pathlib

TICKS = os.sysconf("SC_CLK_TCK")


def descendants(root):
    """The process ids of root and of all that came from it."""
    parents = {}
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        fields = _stat(folder.name)
        if fields:
            parents[int(folder.name)] = int(fields[1])
    family = {root}
    while True:
        grown = family | {child for child, parent in parents.items() if parent in family}
        if grown == family:
            return family
        family = grown


def cpu_seconds(processes):
    """User and system time of all threads of these processes so far, and of their children that ended and were waited for."""
    return sum(sum(int(ticks) for ticks in fields[11:15]) / TICKS for fields in map(_stat, processes) if fields)


def memory_mb(processes):
    """Resident megabytes of each process (its own peak), and of all together with shared pages counted once (now)."""
    peaks, together = {}, 0
    for process in processes:
        try:
            peaks[process] = _kilobytes(process, "status", "VmHWM:") / 1024
            together += _kilobytes(process, "smaps_rollup", "Pss:") / 1024
        except (OSError, ValueError):  # it ended meanwhile
            peaks.pop(process, None)
    return peaks, together


def busy_seconds():
    """{cpu: seconds it has worked, or was withheld by the hypervisor, since boot}; interrupts left out."""
    busy = {}
    for line in pathlib.Path("/proc/stat").read_text(encoding="ascii").splitlines():
        name, *fields = line.split()
        if name.startswith("cpu") and name != "cpu":
            user, nice, system, _, _, _, _, steal = map(int, fields[:8])
            busy[int(name[3:])] = (user + nice + system + steal) / TICKS
    return busy


def _stat(process):
    """The fields of /proc/PID/stat after the program's name, or None when the process is gone."""
    try:
        text = pathlib.Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return text[text.rindex(")") + 2:].split()


def _kilobytes(process, file, label):
    for line in pathlib.Path(f"/proc/{process}/{file}").read_text(encoding="utf-8", errors="replace").splitlines():
        if line.startswith(label):
            return int(line.split()[1])
    raise ValueError(label)
