"""What scripts/gpu-check run tells: a line for each part, numbers of the speeds, and when the time is over."""
import json
import statistics
import time

# What a step moves for an image at least, with the project's kernels: docs/gpu.md, "Goals on hardware".
BYTES_OF_AN_IMAGE = 28.7e-3 * 3.35e12 / 256
# Bytes a second of a GPU's memory, by the name that nvidia-smi has for it; NVIDIA's data sheets.
BANDWIDTHS = {"H200": 4.8e12, "H100 80GB HBM3": 3.35e12, "H100 PCIe": 2.0e12, "A100-SXM4-80GB": 2.039e12, "A100-SXM4-40GB": 1.555e12}
OK, FAILED, SKIPPED, LEFT_OUT = "ok", "FAILED", "skipped", "left out"


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
        self.facts, self.parts, self.speeds = {}, [], []

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

    def speed(self, batch, side, numbers, detail):
        self.speeds.append({"batch_size": batch, "side": side, "images_per_second": numbers, "median": statistics.median(numbers),
                            "detail": detail})
        self.write()

    def exit_code(self):
        return 1 if any(part["status"] == FAILED for part in self.parts) else 77 if self.no_gpu else 0

    def write(self):
        if self._file:
            content = {"facts": self.facts, "no_gpu": self.no_gpu, "parts": self.parts, "speeds": self.speeds}
            self._file.parent.mkdir(parents=True, exist_ok=True)
            self._file.write_text(json.dumps(content, indent=1) + "\n")

    def table(self):
        """Speeds, each against eager Python's of the same batch size and type, and against what the GPU's memory allows."""
        gpu = str(self.facts.get("gpu", ""))
        limit = next((bandwidth / BYTES_OF_AN_IMAGE for name, bandwidth in BANDWIDTHS.items() if name in gpu), None)
        medians = {(speed["batch_size"], speed["side"]): speed["median"] for speed in self.speeds}
        rows = [("batch", "side", "images/s", "least", "most", "runs", "x eager", "of memory's", "")]
        for speed in self.speeds:
            batch, side, numbers = speed["batch_size"], speed["side"], speed["images_per_second"]
            eager = medians.get((batch, f"python eager {side.split()[-1]}"))
            ratio = f"{speed['median'] / eager:.2f}" if eager else "-"
            share = f"{100 * speed['median'] / limit:.0f} %" if limit else "-"
            rows.append((str(batch), side, f"{speed['median']:.0f}", f"{min(numbers):.0f}", f"{max(numbers):.0f}", str(len(numbers)),
                         ratio, share, speed["detail"]))
        return aligned(rows) if len(rows) > 1 else ""


def in_a_line(error):
    kind = "" if isinstance(error, Failure) else f"{type(error).__name__}: "
    return f"{kind}{' '.join(str(error).split())}"[-300:]


def aligned(rows):
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    text = ("  ".join(cell.ljust(width) if i in (1, len(row) - 1) else cell.rjust(width)
                      for i, (cell, width) in enumerate(zip(row, widths))) for row in rows)
    return "\n".join(line.rstrip() for line in text)
