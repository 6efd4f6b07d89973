"""What scripts/gpu-check run tells: a line for each part, figures and speeds, and when the time is over."""
import json
import time

import goals
import speeds

OK, FAILED, SKIPPED, LEFT_OUT = "ok", goals.FAILED, "skipped", "left out"


class Failure(Exception):
    """Why a part failed, in one line."""


class Budget:
    def __init__(self, seconds, clock=time.monotonic):
        self._clock = clock
        self._ends = clock() + seconds

    def left(self):
        return self._ends - self._clock()

    def limit(self, seconds):
        """Seconds that something may take which by itself may take `seconds`."""
        return max(1, min(seconds, self.left()))


class Report:
    """`no_gpu`: why none can be used, or "". The file is written after every line: a kill leaves what was found out."""

    def __init__(self, budget, no_gpu, file=None, tell=print):
        self.budget, self.no_gpu, self._file, self._tell = budget, no_gpu, file, tell
        self.facts, self.parts, self.figures, self.speeds = {}, [], {}, []

    def line(self, part, status, detail="", seconds=0.0):
        self.parts.append({"part": part, "status": status, "detail": detail, "seconds": round(seconds, 1)})
        self._tell(f"{status:9} {part}{': ' if detail else ''}{detail}")
        self.write()

    def part(self, name, seconds, function, needs_gpu=True):
        """Runs it, if there is a GPU for it and it would end in time. What it returns is its detail, what it raises its failure."""
        if needs_gpu and self.no_gpu:
            self.line(name, SKIPPED, self.no_gpu)
            return
        if self.budget.left() < seconds:
            self.line(name, LEFT_OUT, f"takes about {seconds} s, and {max(0, self.budget.left()):.0f} s are left")
            return
        began = time.monotonic()
        try:
            status, detail = OK, function()
        except Exception as error:  # whatever it is, the rest goes on
            status, detail = FAILED, in_a_line(error)
        self.line(name, status, detail or "", time.monotonic() - began)

    def speed(self, group, side, numbers, detail):
        self.speeds.append(speeds.speed(group, side, numbers, detail))
        self.write()

    def results(self):
        """What goals are judged by."""
        return {"facts": self.facts, "figures": self.figures, "speeds": self.speeds, "parts": self.parts}

    def exit_code(self):
        wrong = any(part["status"] == FAILED for part in self.parts) or goals.broken(goals.judged(self.results()))
        return 1 if wrong else 77 if self.no_gpu else 0

    def write(self):
        if self._file:
            content = {**self.results(), "no_gpu": self.no_gpu, "goals": goals.judged(self.results())}
            self._file.parent.mkdir(parents=True, exist_ok=True)
            self._file.write_text(json.dumps(content, indent=1) + "\n")

    def tables(self):
        gpu = str(self.facts.get("gpu", ""))
        return "\n\n".join(filter(None, (speeds.table(self.speeds, gpu), goals.table(self.results()))))


def in_a_line(error):
    kind = "" if isinstance(error, Failure) else f"{type(error).__name__}: "
    return f"{kind}{' '.join(str(error).split())}"[-300:]
