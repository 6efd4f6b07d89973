"""What scripts/gpu-check run does: the steps of its two calls, in order of value.

On cuda all has a training's real size. On another device all is tiny, which shows that the steps themselves work.
"""
import csv
import json
import os
import pathlib
import re
import shutil
import signal
import statistics
import subprocess
import tempfile
import threading
import time
import typing

# Of --own-kernels (docs/developer/gpu_kernels.md): measured one by one, if the first call has time left.
PARTS = ("basic", "residual-gradient", "stem-pool", "relu-mask", "reverse-order", "merge-at-once", "weights-at-once")
KERNELS = "--own-kernels=on"
OK, FAILED, SKIPPED, LEFT_OUT = "ok", "FAILED", "skipped", "left out"
LARGE, SMALL = 256, 64  # images of a batch
STEPS, SAVED, COMPARED = 20, 10, 10  # of a small training: all; before its checkpoint; whose losses are compared with the CPU's
GRAPH = "--cuda-graph=on"  # from step 12
# `steps`: that warm up, and that count.
FULL = {"model": "resnet50", "image": 224, "workers": 12, "batch": {LARGE: 256, SMALL: 64}, "steps": {LARGE: (20, 40), SMALL: (30, 100)}}
TINY = {"model": "resnet20", "image": 16, "workers": 2, "batch": {LARGE: 8, SMALL: 4}, "steps": {LARGE: (10, 10), SMALL: (20, 10)}}
# Sums in another order change losses by 1e-5 in ten such steps; with the learning rate of a training, 0.01, by 1e-2.
COMPARABLE = ("--model=resnet20", "--image-size=32", "--batch-size=16", "--lr=1e-4", "--lr-scaling=none", "--image-dtype=float32")
QUIET = ("--valid-epochs=0", "--checkpoint-epochs=0", "--progress=lines", "--report=off", "--lr-schedule=none", "--optimizer=sgd")
# NCCL takes ranks of different NCCL_HOSTID for ones of different hosts; rollcall permits one GPU for two by the first variable.
ONE_GPU = {"NCCL_MULTI_RANK_GPU_ENABLE": "1", "NCCL_SOCKET_IFNAME": "lo", "NCCL_IB_DISABLE": "1", "GLOO_SOCKET_IFNAME": "lo",
           "MASTER_ADDR": "127.0.0.1", "OMP_NUM_THREADS": "1"}
# Of the job that this may run in, nothing concerns the programs.
FOREIGN = ("SLURM_", "PMIX_", "PMI_", "OMPI_", "ROLLCALL_", "MASTER_", "RANK", "WORLD_SIZE", "LOCAL_")
PEER, SHAPES = (pathlib.Path(__file__).with_name(name) for name in ("peer_steps.py", "convolutions.py"))
FIND_TORCH = "import importlib.util as u; s = u.find_spec('torch'); print(s.submodule_search_locations[0] if s else '')"
TELL_VERSIONS = ("import torch; there = torch.cuda.is_available(); "
                 "print('torch', torch.__version__, 'NCCL', *(torch.cuda.nccl.version() if there else ['not told']))")
NVIDIA_SMI = ("nvidia-smi", "--query-gpu=name,driver_version,memory.total,power.limit", "--format=csv,noheader")
TIME, READ, WRITTEN = "gpu__time_duration.sum", "dram__bytes_read.sum", "dram__bytes_write.sum"


class Ended(Exception):
    """Why a step ended without figures, in one line."""

    def __init__(self, told, status=FAILED):
        super().__init__(told)
        self.status = status


class Machine:
    """Starts programs of the bundle, which end with the step that started them. `ends`: when that must end."""

    def __init__(self, bundle, python, device):
        self.bundle, self.python, self.device = bundle.resolve(), python, device
        self.size = FULL if device == "cuda" else TINY
        self.ends, self.no_device, self._processes, self._trained = 0.0, "", [], {}
        self._scratch = tempfile.TemporaryDirectory(prefix="gpu-check-")
        if not (self.bundle / "bundle.json").is_file():
            raise Ended(f"{bundle}: is not a bundle; try scripts/gpu-check bundle on a machine with a compiler")
        wanted = json.loads((self.bundle / "bundle.json").read_text())["torch"]
        found = subprocess.run([python, "-c", FIND_TORCH], capture_output=True, text=True, check=False).stdout.strip()
        self.torch = pathlib.Path(found or "/nowhere")
        version = re.search(r"__version__ = '([^']+)'", file.read_text()) if (file := self.torch / "version.py").is_file() else None
        if not version or not version[1].startswith(wanted + "."):
            raise Ended(f"{python}: {'has LibTorch ' + version[1] if version else 'has no LibTorch'}, and the bundle was built for {wanted}; "
                        "try --python, or scripts/gpu-check bundle --torch")
        # The plugin is believed only where nobody else may write; a copy may have other permissions than the original.
        subprocess.run(["chmod", "-R", "go-w", self.bundle], check=False, capture_output=True)

    def left(self):
        return max(0.1, self.ends - time.monotonic())

    def folder(self):
        return pathlib.Path(tempfile.mkdtemp(dir=self._scratch.name))

    def environment(self, **variables):
        """Libraries for programs of the bundle only: what Python finds by itself must stay what it is."""
        own = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
        folders = [str(self.bundle / "lib"), str(self.torch / "lib"), *os.environ.get("LD_LIBRARY_PATH", "").split(":")]
        return {**own, "KERNELS_TEST_DEVICE": self.device, "LD_LIBRARY_PATH": ":".join(filter(None, folders)), **variables}

    def start(self, *command, env=None):
        self._processes.append(subprocess.Popen([str(part) for part in command], env=env, text=True, process_group=0, stdin=subprocess.DEVNULL,
                                                stdout=subprocess.PIPE, stderr=subprocess.PIPE))
        return self._processes[-1]

    def start_ranks(self, ranks, program, *arguments):
        command = [self.bundle / "bin" / program, *arguments]
        if ranks == 1:
            return [self.start(*command, env=self.environment(OMP_NUM_THREADS="1"))]
        own = self.environment(**ONE_GPU, WORLD_SIZE=str(ranks), LOCAL_WORLD_SIZE=str(ranks))
        rendezvous = ("--rendezvous=file", f"--rendezvous-folder={self.folder()}")
        return [self.start(*command, *rendezvous, env={**own, "RANK": str(rank), "LOCAL_RANK": str(rank), "NCCL_HOSTID": f"rank-{rank}"})
                for rank in range(ranks)]

    def finish(self, process, good=(0,)):
        """What it printed; it must end in time, with one of these exit codes."""
        told, errors = process.communicate(timeout=self.left())
        if process.returncode not in good:
            lines = (errors.strip() or told.strip()).splitlines()
            raise Ended(f"{pathlib.Path(process.args[0]).name}: exit code {process.returncode}: {' '.join(lines[-3:])}")
        return told

    def run(self, program, *arguments, good=(0,)):
        return self.finish(self.start(self.bundle / "bin" / program, *arguments, env=self.environment()), good)

    def until(self, process, wanted):
        """Seconds until it prints a line with what the regular expression `wanted` says."""
        began, end = time.monotonic(), threading.Timer(self.left(), process.kill)
        end.start()
        found = any(re.search(wanted, line) for line in process.stdout)
        end.cancel()
        if not found and time.monotonic() >= self.ends:
            raise subprocess.TimeoutExpired(process.args, 0)
        if not found:
            self.finish(process, good=())
        return time.monotonic() - began

    def end_processes(self):
        for process in self._processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            with process:  # closes its pipes
                process.wait()
        self._processes = []

    def trained(self, *options, device=None, ranks=1, after=None):
        """The folder of a small training in fp32, which is done once; or of the rest of one, after the checkpoint `after`."""
        key = (options, device, ranks, after)
        if key not in self._trained:
            folder = self.folder()
            if after:
                shutil.copy(after, folder)
            for process in self.start_ranks(
                    ranks, "rollcall-train", f"--data={self.bundle / 'images.h5'}", *COMPARABLE, *QUIET, "--log-steps=1",
                    f"--checkpoint-steps={SAVED}", "--checkpoint-mode=sync", "--tf32=off", "--deterministic=on",
                    f"--max-steps={STEPS}", f"--device={device or self.device}", f"--checkpoint-dir={folder}", *options):
                self.finish(process)
            if (steps := sorted(losses_of(folder))) != list(range(SAVED + 1 if after else 1, STEPS + 1)):
                raise Ended(f"losses of steps {steps}")
            self._trained[key] = folder
        return self._trained[key]

    def training(self, batch, steps, *options):
        """Arguments of rollcall-train for one epoch, and their folder."""
        images, folder = self.size["batch"][batch], self.folder()
        return ["--data=fake", f"--fake-size={int(steps * images / 0.85) + 2 * images + 20}", f"--model={self.size['model']}",
                f"--image-size={self.size['image']}", f"--train-num-workers={self.size['workers']}", "--image-dtype=bfloat16",
                "--precision=bf16", *QUIET, "--lr=0.1", f"--batch-size={images}", f"--max-steps={steps}", f"--device={self.device}",
                f"--checkpoint-dir={folder}", *options], folder


def versions(machine):
    facts = {"bundle": (machine.bundle / "bundle.json").read_text().strip(), "cpus": os.cpu_count()}
    for name, command in (("gpu", NVIDIA_SMI), ("python", (machine.python, "-c", TELL_VERSIONS))):
        try:
            facts[name] = machine.finish(machine.start(*command)).strip()
        except (Ended, OSError) as error:
            facts[name] = f"not told: {error}"
    try:
        machine.run("rollcall-train", "--dry-run", f"--device={machine.device}")
    except Ended as error:
        told = re.search(r"rollcall: --device: \w+: (.*?)(; try |$)", str(error), re.M)
        machine.no_device = told[1] if told else str(error)
        raise Ended(machine.no_device, SKIPPED if facts["gpu"].startswith("not told") else FAILED) from None
    return "; ".join(str(fact) for fact in facts.values()), facts


def kernels(machine):
    """A program that skips tests has not shown what they are for."""
    ends = [machine.run(test.name).strip().splitlines()[-1] for test in sorted((machine.bundle / "bin").glob("*_gpu_test"))]
    if not ends or not all(end.startswith("[  PASSED  ]") for end in ends):
        raise Ended(f"tests were skipped, or there are none: {ends}")
    return ", ".join(ends), {}


def speed(batch, *options):
    def look(machine):
        warm_up, counted = machine.size["steps"][batch]
        arguments, folder = machine.training(batch, warm_up + counted, "--log-steps=10", *options)
        machine.run("rollcall-train", *arguments)
        records = [record for record in records_of(folder, "step") if record["step"] > warm_up]
        seconds = sum(record["seconds"] for record in records)
        waited = sum(record["data_wait_fraction"] * record["seconds"] for record in records) / seconds
        rate = machine.size["batch"][batch] * sum(record["steps"] for record in records) / seconds
        return f"{rate:.0f} images/s, waited for data {100 * waited:.0f} % of the time", {"images_per_second": rate, "waited": waited}
    return look


def python(machine, batch, *options, first=12, steps=0):
    """Starts the peer; on a CPU it does a step where a GPU does many."""
    size = (f"--batch-size={machine.size['batch'][batch]}", f"--image-size={machine.size['image']}")
    if machine.device != "cuda":
        size, first, steps = (*size[:1], "--image-size=32", "--device=cpu"), 1, min(1, steps)
    return machine.start(machine.python, PEER, *size, f"--first-steps={first}", f"--steps={steps}", *options)


def speed_of_python(batch, mode):
    def look(machine):
        if mode != "eager" and machine.device != "cuda":
            raise Ended("a CPU compiles for minutes", SKIPPED)
        process = python(machine, batch, f"--mode={mode}", steps=machine.size["steps"][batch][1])
        try:
            figures = {name: value for line in machine.finish(process).splitlines() for name, value in json.loads(line).items()}
        except subprocess.TimeoutExpired:  # which is no failure of rollcall's
            raise Ended("did not end within its limit", LEFT_OUT) from None
        return f"{figures['images_per_second']:.0f} images/s, first steps {figures['first_seconds']:.0f} s", figures
    return look


def two_ranks(*options, like=()):
    """Beside two ranks on CPUs with the options `like`."""
    return lambda machine: losses_beside(machine.trained(*options, ranks=2), machine.trained(*like, device="cpu", ranks=2))


def collectives(machine):
    first, second = machine.start_ranks(2, "rollcall-bench-collectives", f"--device={machine.device}", "--json", "--operation=all",
                                        f"--backend={'nccl' if machine.device == 'cuda' else 'auto'}", "--max-bytes=1048576", "--factor=16",
                                        "--iterations=5")
    rows = [json.loads(line) for line in machine.finish(first, (0, 1)).splitlines()]
    machine.finish(second, (0, 1))
    wrong = sum(not row["correct"] or row["ranks"] != 2 for row in rows)
    return f"{len(rows)} measurements, {wrong} wrong", {"wrong": wrong if rows else 1}


def killed_rank(after, *options):
    def look(machine):
        first, second = machine.start_ranks(
            2, "rollcall-train", "--data=fake", "--fake-size=4000", "--epochs=1000", *COMPARABLE, *QUIET, "--log-steps=1",
            "--collective-timeout=20", f"--device={machine.device}", f"--checkpoint-dir={machine.folder()}", *options)
        machine.until(first, rf"step +{after}/")
        second.kill()
        began = time.monotonic()
        errors = first.communicate(timeout=machine.left())[1]
        seconds, told = time.monotonic() - began, re.search(r"^rollcall: .*rank 1 on \S+ was lost.*", errors, re.M)
        return (f"exit code {first.returncode} after {seconds:.1f} s: {told[0] if told else errors[-200:]}",
                {"named": int(first.returncode == 69 and told is not None), "seconds": seconds})
    return look


def kernels_of_a_step(machine):
    """cuDNN does not search here (--deterministic=on), which would be thousands of kernels."""
    tool = shutil.which("ncu") or shutil.which("ncu", path="/usr/local/cuda/bin")
    if machine.device != "cuda" or not tool:
        raise Ended("ncu is not installed" if machine.device == "cuda" else "only a GPU has counters", SKIPPED)
    arguments, folder = machine.training(LARGE, 2, "--log-steps=1", "--deterministic=on", KERNELS)
    machine.finish(machine.start(tool, "--csv", "--page=raw", "--print-units=base", "--clock-control=none", "--cache-control=none",
                                 f"--metrics={TIME},{READ},{WRITTEN}", f"--log-file={folder / 'ncu'}", machine.bundle / "bin/rollcall-train",
                                 *arguments, env=machine.environment()))
    total = {}
    for name, ms, gigabytes in (rows := last_step((folder / "ncu").read_text())):
        total[name] = [sum(pair) for pair in zip(total.get(name, (0, 0, 0)), (1, ms, gigabytes))]
    ms, gigabytes = (sum(row[i] for row in rows) for i in (1, 2))
    longest = sorted(([name[:200], *sums] for name, sums in total.items()), key=lambda row: -row[2])
    return (f"{len(rows)} kernels, {ms:.1f} ms, {gigabytes:.1f} GB, {gigabytes / ms:.2f} TB/s",
            {"ms": ms, "gigabytes": gigabytes, "longest": longest[:40]})


def last_step(text):
    """[(kernel, ms, GB)] in ncu's CSV (a row of names, one of units, one for each kernel), from one step's optimizer to the next one's."""
    rows = [(row["Kernel Name"], *(float(row[name].replace(",", "")) for name in (TIME, READ, WRITTEN)))
            for row in csv.DictReader(line for line in text.splitlines() if line.startswith('"')) if row["ID"]]
    of_optimizer = [i for i, row in enumerate(rows) if re.search("sgd", row[0], re.I)]
    ends = [i for i, following in zip(of_optimizer, [*of_optimizer[1:], len(rows) + 99]) if following - i > 50]
    if len(ends) < 2:
        raise Ended(f"{len(rows)} kernels, among which are not two steps of the optimizer")
    return [(name, time / 1e6, (read + written) / 1e9) for name, time, read, written in rows[ends[-2] + 1:ends[-1] + 1]]


def cudnn_graphs(machine):
    """In float16, for which cuDNN has most of them; its library is in the folders of NVIDIA's wheels beside LibTorch's."""
    program = machine.bundle / "bin" / "cudnn_graph"
    if machine.device != "cuda" or not program.exists():
        raise Ended("cudnn_graph is not in the bundle" if machine.device == "cuda" else "only a GPU has cuDNN", SKIPPED)
    environment = machine.environment()
    environment["LD_LIBRARY_PATH"] += "".join(f":{folder}" for folder in machine.torch.parent.glob("nvidia/*/lib"))
    told = machine.finish(machine.start("sh", "-c", f'"$0" "$1" --shapes | "$2" {machine.size["batch"][LARGE]} float16', machine.python, SHAPES,
                                        program, env=environment), good=(0, 1))
    rows, figures = [json.loads(line) for line in told.splitlines()], {}
    for graph in ("statistics", "prologue"):
        both = [(row["plain"]["ms"], row[graph]["ms"]) for row in rows if "ms" in row["plain"] and "ms" in row.get(graph, {})]
        figures[graph] = {"shapes": len(both), "plain_ms": sum(plain for plain, _ in both), "ms": sum(ms for _, ms in both)}
    if wrong := [f"{row['shape']}: {found['wrong']}" for row in rows for found in row.values() if "wrong" in found]:
        raise Ended(f"numbers are wrong: {'; '.join(wrong)}")
    return ("; ".join(f"{graph}: {f['shapes']} shapes, {f['ms']:.2f} ms, alone {f['plain_ms']:.2f} ms" for graph, f in figures.items()),
            {**figures, "rows": rows})


def stall(machine):
    """By the clock: by how much the three steps at a save, which empties the queue of steps, are longer than others; and as counted."""
    arguments, folder = machine.training(SMALL, 80, "--log-steps=1", "--checkpoint-steps=20", "--checkpoint-overlap=wait", "--keep-last=1")
    machine.run("rollcall-train", *arguments)
    saves, steps = records_of(folder, "checkpoint")[:-1], {record["step"]: 1000 * record["seconds"] for record in records_of(folder, "step")}
    if len(saves) < 3 or not all(save["written"] for save in saves):
        raise Ended(f"not written: {saves}")
    at_saves = [range(save["step"], save["step"] + 3) for save in saves]
    usual = statistics.median(ms for step, ms in steps.items() if step > 20 and not any(step in three for three in at_saves))
    ms = statistics.median(sum(steps[step] - usual for step in three) for three in at_saves)
    counted = 1000 * statistics.median(save["stall_seconds"] for save in saves)
    return f"{ms:.1f} ms beside steps of {usual:.1f} ms, {counted:.1f} ms counted", {"ms": ms, "counted_ms": counted, "step_ms": usual}


def start(machine):
    """From the start of a process to the end of its first step, by turns."""
    ours, theirs = [], []
    for _ in range(2):
        command = (machine.bundle / "bin/rollcall-train", *machine.training(SMALL, 2, "--log-steps=1")[0])
        ours.append(machine.until(machine.start(*command, env=machine.environment()), r"step +1/"))
        theirs.append(machine.until(python(machine, SMALL, first=1), "first_seconds"))
    ours, theirs = statistics.median(ours), statistics.median(theirs)
    return f"{ours:.1f} s, Python {theirs:.1f} s", {"of_python": ours / theirs, "seconds": ours}


def records_of(folder, event):
    records = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [record for record in records if record["event"] == event]


def losses_of(folder):
    return {record["step"]: record["loss"] for record in records_of(folder, "step")}


def losses_beside(folder, expected):
    ours, theirs = losses_of(folder), losses_of(expected)
    differ, step = max((abs(ours[step] / theirs[step] - 1), step) for step in range(1, COMPARED + 1))
    return f"losses within {differ:.1e} (step {step}: {ours[step]:.6f}, not {theirs[step]:.6f})", {"losses_differ": differ}


def contents_beside(machine, *folders):
    """Of weights, moments and progress at the end. Settings differ: the folder's name is one."""
    answer = json.loads(machine.run("rollcall-checkpoint", "diff", *(folder / checkpoint(STEPS) for folder in folders), "--json", good=(0, 1)))
    differ = [tensor["name"] for tensor in answer["tensors"]] + [name for name in answer["values"] if not name.startswith("/config/")]
    return f"{answer['equal_tensors']} tensors equal, {len(differ)} contents differ {' '.join(differ[:5])}", {"contents_differ": len(differ)}


def checkpoint(step):
    return f"step-{step:08}.h5"


class Step(typing.NamedTuple):
    """`seconds`: its limit. `look`: of a Machine, returns what is told, and {figure: value}."""
    name: str
    seconds: float
    look: typing.Callable


SECONDS = {1: 270, 2: 570}
OWN, OPERATORS, ALONE, IN_GRAPH = "256, own kernels", "256, LibTorch's operators", "64", "64, a graph"
EAGER, COMPILED, AUTOTUNED = {LARGE: "256, Python eager", SMALL: "64, Python eager"}, "64, torch.compile", "256, torch.compile max-autotune"
RANKS = {"two ranks": two_ranks(), "two ranks, --sync-bn": two_ranks("--sync-bn", like=("--sync-bn",)),
         "two ranks, FSDP": two_ranks("--parallel=fsdp"), "two ranks, a graph": two_ranks(GRAPH)}
COLLECTIVES, KILLED = "two ranks, collectives", {"two ranks, one is killed": killed_rank(5), "the same in a graph": killed_rank(18, GRAPH)}
LOSSES, LOSSES_OWN, RESUMED, BITS = "losses", "losses, own kernels", "bits of a resumed training", "bits of a graph"
STALL, START, GRAPHS = "stall of a save", "start to first step", "cuDNN's graphs"
# The most valuable first.
CALLS = {
    1: (Step("versions", 45, versions), Step("kernels' tests", 45, kernels),
        Step(OWN, 35, speed(LARGE, KERNELS)), Step(OPERATORS, 35, speed(LARGE, "--own-kernels=off")),
        Step(ALONE, 25, speed(SMALL, KERNELS, "--cuda-graph=off")), Step(IN_GRAPH, 25, speed(SMALL, KERNELS, GRAPH)),
        *(Step(name, 30, speed_of_python(batch, "eager")) for batch, name in EAGER.items())),
    2: (Step("versions", 30, versions), *(Step(name, 30, look) for name, look in RANKS.items()), Step(COLLECTIVES, 20, collectives),
        *(Step(name, 35, look) for name, look in KILLED.items()), Step("kernels of a step", 65, kernels_of_a_step),
        Step(LOSSES, 25, lambda m: losses_beside(m.trained(), m.trained(device="cpu"))),
        Step(LOSSES_OWN, 20, lambda m: losses_beside(m.trained(KERNELS), m.trained(device="cpu"))),
        Step(RESUMED, 15, lambda m: contents_beside(m, m.trained(), m.trained(after=m.trained() / checkpoint(SAVED)))),
        Step(BITS, 20, lambda m: contents_beside(m, m.trained(), m.trained(GRAPH))),
        Step(STALL, 25, stall), Step(START, 40, start),
        Step(COMPILED, 50, speed_of_python(SMALL, "compile")), Step(AUTOTUNED, 60, speed_of_python(LARGE, "max-autotune")))}


def of_parts(parts):
    return tuple(Step(f"256, --own-kernels={part}", 35, speed(LARGE, f"--own-kernels={part}")) for part in parts)


# What follows in the first call.
IF_TIME = (*of_parts(PARTS), Step(GRAPHS, 35, cudnn_graphs))
