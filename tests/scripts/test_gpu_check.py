"""scripts/gpu-check: the table of its steps, what it does with their results, and all of it on the stand-in device."""
import itertools
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

ROOT = pathlib.Path(os.environ.get("ROLLCALL_SOURCE_DIR", pathlib.Path(__file__).parents[2]))
sys.path.insert(0, str(ROOT / "benchmarks" / "gpu"))

import bundle  # noqa: E402
import check  # noqa: E402
import steps  # noqa: E402
from steps import FAILED, LEFT_OUT, OK, SKIPPED, Ended, Step  # noqa: E402

pytestmark = pytest.mark.python

BUILD = pathlib.Path(os.environ["ROLLCALL_BUILD_DIR"])


@pytest.mark.parametrize("call", steps.CALLS)
def test_limits_of_a_call_add_up_to_its_time(call):
    assert sum(step.seconds for step in steps.CALLS[call]) <= steps.SECONDS[call]
    names = [step.name for step in (*steps.CALLS[call], *steps.IF_TIME)]
    assert len(names) == len(set(names))


def test_both_calls_fit_a_quarter_of_an_hour():
    assert steps.SECONDS == {1: 4.5 * 60, 2: 9.5 * 60}


def test_every_goal_is_of_steps_that_exist():
    names = {step.name for step in itertools.chain(*steps.CALLS.values())}
    for goal in check.GOALS:
        assert {*goal.steps, *filter(None, [goal.beside])} <= names, goal.name


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


class NoMachine:
    """Whose steps take as long as they say, by the clock."""
    no_device, ends, ended = "", 0.0, 0

    def __init__(self):
        self.clock = Clock()

    def takes(self, seconds, result=("well", {})):
        def look(machine):
            machine.clock.now += min(seconds, machine.ends - machine.clock.now)
            if machine.clock.now >= machine.ends:
                raise subprocess.TimeoutExpired("rollcall-train", seconds)
            if isinstance(result, Exception):
                raise result
            return result
        return look

    def end_processes(self):
        self.ended += 1

    def perform(self, *of_call, seconds=100.0):
        found = []
        check.perform(of_call, seconds, self, lambda *line: found.append(line), self.clock)
        return found


def test_what_no_longer_fits_is_left_out_by_name():
    m = NoMachine()
    lines = m.perform(Step("a", 60, m.takes(55)), Step("b", 50, m.takes(1)), Step("c", 20, m.takes(5)), Step("d", 41, m.takes(1)))
    assert [(name, status) for name, status, *_ in lines] == [("a", OK), ("b", LEFT_OUT), ("c", OK), ("d", LEFT_OUT)]
    assert lines[1][2] == "may take 50 s, and 45 s are left"
    assert m.clock.now == 60


def test_a_step_that_exceeds_its_limit_is_one_line_and_costs_no_more():
    m = NoMachine()
    lines = m.perform(Step("hangs", 30, m.takes(1000)), Step("next", 70, m.takes(10, ("told", {"ms": 2}))))
    assert [line[:3] for line in lines] == [("hangs", FAILED, "did not end within 30 s"), ("next", OK, "told")]
    assert lines[1][3:] == (10, {"ms": 2}) and m.ended == 2


def test_the_last_step_may_take_all_that_is_left():
    m = NoMachine()
    assert m.perform(Step("a", 60, m.takes(1)), Step("last", 30, m.takes(98)))[1][1] == OK


@pytest.mark.parametrize("error, status, told", [
    (Ended("rollcall-train: exit code 69:\nno driver"), FAILED, "rollcall-train: exit code 69: no driver"),
    (KeyError("loss"), FAILED, "KeyError: 'loss'"),
    (Ended("a CPU compiles for minutes", SKIPPED), SKIPPED, "a CPU compiles for minutes")])
def test_a_step_without_figures_is_one_line_and_the_others_run(error, status, told):
    m = NoMachine()
    lines = m.perform(Step("first", 10, m.takes(1, error)), Step("second", 10, m.takes(1)))
    assert [line[:3] for line in lines] == [("first", status, told), ("second", OK, "well")] and lines[0][4] == {}


def test_without_a_device_the_rest_is_skipped_with_the_reason():
    m = NoMachine()

    def no_driver(machine):
        machine.no_device = "no driver"
        raise Ended("no driver", SKIPPED)

    lines = m.perform(Step("versions", 10, no_driver), Step("speed", 10, m.takes(1)))
    assert [line[1:3] for line in lines] == [(SKIPPED, "no driver")] * 2
    assert check.exit_code([], check.judged([]), m.no_device) == 77


def test_a_killed_run_loses_no_line(tmp_path):
    """The second step kills the script itself."""
    program = f"""
import os, pathlib, signal, sys, time
sys.path.insert(0, {str(ROOT / "benchmarks" / "gpu")!r})
import check
from steps import Step
class Machine:
    no_device = ""
    def end_processes(self): pass
check.perform((Step("first", 9, lambda m: ("well", {{"ms": 1}})), Step("second", 9, lambda m: os.kill(os.getpid(), signal.SIGKILL))),
              time.monotonic() + 99, Machine(), check.Lines(pathlib.Path(sys.argv[1]), 1).write)
"""
    file = tmp_path / "new" / "gpu-check.jsonl"
    done = subprocess.run([sys.executable, "-c", program, file], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == -signal.SIGKILL and done.stdout == "ok        first: well (0 s)\n", done.stderr
    with file.open("a") as out:
        out.write('{"call": 1, "step": "cut')
    assert [(line["call"], line["step"], line["figures"]) for line in check.Lines(file, 2).of_all_calls()] == [(1, "first", {"ms": 1})]


def line(step, status=OK, **figures):
    return {"call": 1, "step": step, "status": status, "told": "", "seconds": 1.0, "figures": figures}


WELL = [*(line(name, losses_differ=1e-5) for name in (steps.LOSSES, steps.LOSSES_OWN, *steps.RANKS)), line(steps.COLLECTIVES, wrong=0),
        *(line(name, named=1) for name in steps.KILLED), line(steps.RESUMED, contents_differ=0), line(steps.BITS, contents_differ=0)]


def outcomes(lines):
    return {goal.name: outcome for goal, _, outcome in check.judged(lines)}


@pytest.mark.parametrize("wrong, goal", [
    (line(steps.LOSSES, losses_differ=1.1e-4), "losses on the GPU and on CPUs: relative difference"),
    (line(steps.LOSSES_OWN, losses_differ=1.1e-4), "losses on the GPU and on CPUs: relative difference"),
    *((line(name, losses_differ=2e-4), "the same with two ranks") for name in steps.RANKS),
    (line(steps.COLLECTIVES, wrong=1), "collectives of two ranks: wrong results"),
    *((line(name, named=0), "a killed rank is named") for name in steps.KILLED),
    (line(steps.RESUMED, contents_differ=1), "resumed, --deterministic=on: contents that differ"),
    (line(steps.BITS, contents_differ=1), "a graph, --deterministic=on: contents that differ")])
def test_a_promise_broken_in_any_call_fails_the_run(wrong, goal):
    assert "missed" not in outcomes(WELL).values() and check.exit_code([], check.judged(WELL), "") == 0
    lines = [wrong, *WELL]  # a later line does not hide it
    assert [name for name, outcome in outcomes(lines).items() if outcome == "missed"] == [goal]
    assert check.exit_code([], check.judged(lines), "") == 1
    assert "missed: a promise" in next(told for told in check.table(check.judged(lines)).splitlines() if told.startswith(goal))


def test_a_missed_speed_is_told_and_fails_nothing():
    goal = "batch 256: speed of eager PyTorch's"
    assert outcomes([line(steps.OWN, images_per_second=130.0)])[goal] == "not measured"
    lines = [line(steps.OWN, images_per_second=110.0), line(steps.EAGER[steps.LARGE], images_per_second=100.0), line(steps.STALL, ms=2.5)]
    assert outcomes(lines)[goal] == outcomes(lines)["a save in the background: stall, ms"] == "missed"
    assert check.exit_code(lines, check.judged(lines), "") == 0
    assert outcomes([*lines, line(steps.OWN, images_per_second=125.0)])[goal] == "met"  # the last one counts


def test_a_failed_step_fails_the_run():
    assert check.exit_code([line(steps.STALL, FAILED)], check.judged(WELL), "") == 1
    assert check.exit_code([line(steps.COMPILED, LEFT_OUT)], check.judged(WELL), "") == 0


@pytest.fixture
def made(tmp_path):
    """A bundle for the LibTorch of a Python that has nothing else."""
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "version.py").write_text("__version__ = '2.11.0+cu130'\n")
    (tmp_path / "python").write_text(f"#!/bin/sh\necho {tmp_path / 'torch'}\n")
    (tmp_path / "python").chmod(0o755)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bundle.json").write_text('{"torch": "2.11"}')
    return tmp_path


def script(folder, *options):
    return subprocess.run([ROOT / "scripts/gpu-check", "run", "--call=1", f"--bundle={folder}", f"--python={folder / 'python'}",
                           f"--json={folder / 'x.jsonl'}", *options], capture_output=True, text=True, check=False)


def test_a_run_without_its_bundle_or_libtorch_is_an_error(made):
    (made / "bundle.json").write_text('{"torch": "2.15"}')
    done = script(made)
    assert done.returncode == 69 and "has LibTorch 2.11.0+cu130, and the bundle was built for 2.15; try --python" in done.stderr
    (made / "bundle.json").unlink()
    done = script(made)
    assert done.returncode == 69 and "is not a bundle; try scripts/gpu-check bundle" in done.stderr


def test_a_run_without_a_gpu_skips_all_with_the_drivers_reason(made):
    program = made / "bin" / "rollcall-train"
    program.write_text("#!/bin/sh\necho 'rollcall: --device: cuda: no driver; try nvidia-smi' >&2; exit 69\n")
    program.chmod(0o755)
    done = script(made)
    assert done.returncode == 77, done.stdout + done.stderr
    lines = [json.loads(told) for told in (made / "x.jsonl").read_text().splitlines()]
    assert [(told["step"], told["status"], told["told"]) for told in lines] == [
        (step.name, SKIPPED, "no driver") for step in (*steps.CALLS[1], *steps.IF_TIME)]


def test_a_plan_names_all_steps_and_starts_nothing(tmp_path):
    done = script(tmp_path / "nothing", "--dry-run")
    assert done.returncode == 0 and [told.split("  ")[-1] for told in done.stdout.splitlines()][:-1] == [
        step.name for step in (*steps.CALLS[1], *steps.IF_TIME)]


def installed(folder, text, name="rollcall-train"):
    """A Machine whose program is this."""
    program = folder / "bin" / name
    program.write_text(text)
    program.chmod(0o755)
    machine = steps.Machine(folder, folder / "python", "cuda")
    machine.ends = time.monotonic() + 60
    return machine


def trains(folder, records):
    """A Machine whose trainings leave these records."""
    (folder / "records").write_text("".join(json.dumps(record) + "\n" for record in records))
    return installed(folder, f"""#!/bin/sh
for argument; do case $argument in --checkpoint-dir=*) cp {folder}/records "${{argument#*=}}/metrics.jsonl";; esac; done
""")


def test_a_speed_is_of_the_steps_behind_the_warm_up(made):
    records = [{"event": "step", "step": step, "steps": 10, "seconds": 9.0 if step <= 20 else 2.0, "data_wait_fraction": 0.25}
               for step in range(10, 61, 10)]
    told, figures = steps.speed(steps.LARGE)(trains(made, records))
    assert figures == {"images_per_second": 10 * 256 / 2.0, "waited": 0.25} and told == "1280 images/s, waited for data 25 % of the time"


def test_a_stall_is_what_three_steps_take_longer_by_the_clock(made):
    more = {20: 0.002, 21: 0.001, 40: 0.004, 61: 0.002}  # 3, 4 and 2 ms
    records = [{"event": "step", "step": step, "seconds": 0.01 + more.get(step, 0)} for step in range(1, 81)]
    saves = [{"event": "checkpoint", "step": step, "written": True, "stall_seconds": 0.001} for step in (20, 40, 60, 80)]
    figures = steps.stall(trains(made, [*records, *saves]))[1]
    assert (figures["ms"], figures["counted_ms"], figures["step_ms"]) == (pytest.approx(3), pytest.approx(1), pytest.approx(10))
    with pytest.raises(Ended, match="not written"):
        steps.stall(trains(made, [*records, {**saves[0], "written": False}, *saves[1:]]))


@pytest.mark.parametrize("code, told, named", [(69, "rollcall: collective: all-reduce: rank 1 on a was lost in step 7", 1),
                                               (69, "rollcall: collective: all-reduce did not end within 20 s", 0),
                                               (1, "rollcall: collective: all-reduce: rank 1 on a was lost in step 7", 0)])
def test_a_killed_rank_is_named_by_an_error_line_and_its_exit_code(made, code, told, named):
    machine = installed(made, f"#!/bin/sh\necho 'step  5/9'\n[ $RANK = 0 ] || exec sleep 600\necho '{told}' >&2\nexit {code}\n")
    text, figures = steps.killed_rank(5)(machine)
    assert figures["named"] == named and told in text
    machine.end_processes()


@pytest.mark.parametrize("end, well", [("[  PASSED  ] 4 tests.", True), ("[  SKIPPED ] KernelsTest.OfImages", False)])
def test_skipped_kernel_tests_are_a_failure(made, end, well):
    machine = installed(made, f"#!/bin/sh\necho '{end}'\n", "kernels_gpu_test")
    if well:
        assert steps.kernels(machine)[0] == end
    else:
        with pytest.raises(Ended, match="tests were skipped"):
            steps.kernels(machine)


def test_losses_are_compared_over_ten_steps(made):
    for name, last in (("a", 1.00003), ("b", 1.0)):
        (made / name).mkdir()
        losses = [2.0] * 9 + [last, 9 * last]
        (made / name / "metrics.jsonl").write_text("".join(
            json.dumps({"event": "step", "step": step, "loss": loss}) + "\n" for step, loss in enumerate(losses, 1)))
    assert steps.losses_beside(made / "a", made / "b")[1]["losses_differ"] == pytest.approx(3e-5)


@pytest.mark.parametrize("changed, differ", [([], 0), (["fc.weight"], 1)])
def test_contents_of_checkpoints_are_compared_without_settings(made, changed, differ):
    answer = {"equal": False, "equal_tensors": 193, "tensors": [{"name": name} for name in changed], "values": ["/config/argv", "/config/json"]}
    machine = installed(made, f"#!/bin/sh\necho '{json.dumps(answer)}'\nexit 1\n", "rollcall-checkpoint")
    assert steps.contents_beside(machine, made, made)[1] == {"contents_differ": differ}
    answer["values"].append("/progress/step")
    machine = installed(made, f"#!/bin/sh\necho '{json.dumps(answer)}'\nexit 1\n", "rollcall-checkpoint")
    assert steps.contents_beside(machine, made, made)[1] == {"contents_differ": differ + 1}


def test_ranks_see_themselves_on_hosts_of_their_own_and_nothing_of_a_job(made, monkeypatch):
    monkeypatch.setenv("SLURM_PROCID", "7")
    monkeypatch.setenv("MASTER_PORT", "7")
    machine = installed(made, "#!/bin/sh\necho $RANK $LOCAL_RANK $WORLD_SIZE $NCCL_HOSTID $NCCL_MULTI_RANK_GPU_ENABLE $SLURM_PROCID "
                              "$MASTER_PORT $1\n")
    told = [machine.finish(process).split() for process in machine.start_ranks(2, "rollcall-train")]
    assert told == [["0", "0", "2", "rank-0", "1", "--rendezvous=file"], ["1", "1", "2", "rank-1", "1", "--rendezvous=file"]]


def test_what_a_step_started_ends_with_it(made):
    machine = steps.Machine(made, made / "python", "cuda")
    machine.ends = time.monotonic() + 60
    process = machine.start("sh", "-c", "sleep 600 & echo $!; wait")
    child = int(process.stdout.readline())
    machine.ends = time.monotonic() + 0.2
    with pytest.raises(subprocess.TimeoutExpired):
        machine.finish(process)
    machine.end_processes()
    assert process.returncode == -signal.SIGKILL
    state = pathlib.Path(f"/proc/{child}/stat")
    ended = time.monotonic() + 30
    while state.exists() and state.read_text().split()[2] != "Z" and time.monotonic() < ended:
        os.sched_yield()
    assert not state.exists() or state.read_text().split()[2] == "Z"


def test_a_line_is_waited_for_until_the_limit(made):
    machine = steps.Machine(made, made / "python", "cuda")
    machine.ends = time.monotonic() + 60
    assert 0 < machine.until(machine.start("sh", "-c", "echo first; echo 'step  1/2'; sleep 600"), r"step +1/") < 60
    with pytest.raises(Ended, match="sh: exit code 3: no GPU"):
        machine.until(machine.start("sh", "-c", "echo no GPU >&2; exit 3"), r"step +1/")
    machine.ends = time.monotonic() + 0.2
    with pytest.raises(subprocess.TimeoutExpired):
        machine.until(machine.start("sh", "-c", "exec sleep 600"), r"step +1/")
    machine.end_processes()


def profile(kernels):
    """As ncu writes it: what it has to say itself, names, units, kernels."""
    rows = [f'"{i}","1","rollcall-train","{name}","{read}","1,000","2,000,000"' for i, (name, read) in enumerate(kernels)]
    return "\n".join(["==PROF== Connected to process 1", f'"ID","Process ID","Process Name","Kernel Name","{steps.READ}","{steps.WRITTEN}",'
                      f'"{steps.TIME}"', '"","","","","byte","byte","ns"', *rows])


def test_the_kernels_of_the_last_step_are_found():
    first, second = [("warm-up", 1)] * 70, [("conv<a, b>(float)", "3,000"), ("relu", 5)] * 40
    optimizer = [("multi_tensor_apply_kernel<FusedSgdMathFunctor>", 7), ("fill", 0), ("multi_tensor_apply_kernel<FusedSgdMathFunctor>", 7)]
    found = steps.last_step(profile([*first, *optimizer, *second, *optimizer, ("copy", 1)]))
    assert [name for name, *_ in found] == [name for name, _ in [*second, *optimizer]]
    assert found[0] == ("conv<a, b>(float)", 2.0, 4e-6)
    with pytest.raises(Ended, match="not two steps"):
        steps.last_step(profile([*first, *optimizer]))


def test_parts_of_the_kernels_have_a_step_each():
    class Sized:
        size, commands = steps.TINY, []
        device = "cuda"

        def training(self, batch, count, *options):
            self.commands.append(options)
            raise Ended("enough")

    for step in steps.of_parts(["statistics", "relu"]):
        with pytest.raises(Ended):
            step.look(Sized())
    assert [options[-1] for options in Sized.commands] == ["--own-kernels=statistics", "--own-kernels=relu"]


def has_graphs(made, lines, code):
    """The program gets all shapes, and finds the library in NVIDIA's wheels."""
    (made / "nvidia" / "cudnn" / "lib").mkdir(parents=True, exist_ok=True)
    machine = installed(made, "#!/bin/sh\n[ \"$*\" = '256 float16' ] && [ $(wc -l) = 23 ] || exit 3\n"
                        f"case $LD_LIBRARY_PATH in *:{made}/nvidia/cudnn/lib) ;; *) exit 4;; esac\n"
                        + "".join(f"echo '{json.dumps(told)}'\n" for told in lines) + f"exit {code}\n", "cudnn_graph")
    machine.python = sys.executable
    return machine


def test_graphs_are_compared_where_cudnn_has_them(made):
    lines = [{"shape": "first", "plain": {"ms": 9.0}, "statistics": {"not_supported": "no engine"}},
             {"shape": "second", "plain": {"ms": 1.0}, "statistics": {"ms": 1.5}, "prologue": {"ms": 2.0}}]
    told, figures = steps.cudnn_graphs(has_graphs(made, lines, 0))
    assert told == "statistics: 1 shapes, 1.50 ms, alone 1.00 ms; prologue: 1 shapes, 2.00 ms, alone 1.00 ms"
    assert figures == {"rows": lines, "statistics": {"shapes": 1, "plain_ms": 1.0, "ms": 1.5},
                       "prologue": {"shapes": 1, "plain_ms": 1.0, "ms": 2.0}}
    lines[1]["prologue"]["wrong"] = "image 0: 1, not 2"
    machine = has_graphs(made, lines, 1)
    with pytest.raises(Ended, match="numbers are wrong: second: image 0: 1, not 2"):
        steps.cudnn_graphs(machine)
    (made / "bin" / "cudnn_graph").unlink()
    with pytest.raises(Ended, match="not in the bundle"):
        steps.cudnn_graphs(machine)


def test_a_folder_that_is_not_a_bundle_is_not_deleted(tmp_path):
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(bundle.Refused, match="is not a bundle and not empty"):
        bundle.refuse_what_is_no_bundle(tmp_path)
    (tmp_path / "bundle.json").write_text("{}")
    bundle.refuse_what_is_no_bundle(tmp_path)
    bundle.refuse_what_is_no_bundle(tmp_path / "new")


def test_too_new_symbols_are_named():
    objdump = """
0000000000000000      DF *UND*  0000000000000000 (GLIBC_2.34) pthread_create
0000000000000000      DF *UND*  0000000000000000 (GLIBC_2.38) __isoc23_strtol
0000000000000000      DO *UND*  0000000000000000  GLIBCXX_3.4.30 _ZSt4cout
0000000000000000      DF *UND*  0000000000000000 (GLIBCXX_3.4.32) _ZSt21ios_base_library_initv
0000000000000000  w   D  *UND*  0000000000000000  Base        __gmon_start__
0000000000001000 g    DF .text  0000000000000010 (GLIBC_2.99) own
"""
    assert bundle.too_new(objdump) == ["__isoc23_strtol (GLIBC_2.38)", "_ZSt21ios_base_library_initv (GLIBCXX_3.4.32)"]


def test_only_libraries_missing_on_the_target_are_bundled():
    ldd = """
	linux-vdso.so.1 (0x00007ffc0)
	libtorch_cpu.so => /opt/torch/lib/libtorch_cpu.so (0x1)
	libgomp.so.1 => /opt/torch/lib/libgomp.so.1 (0x1)
	libcudart.so.13 => /usr/lib/libcudart.so.13 (0x1)
	libcurl.so.4 => /usr/lib/libcurl.so.4 (0x1)
	libc.so.6 => /usr/lib/libc.so.6 (0x1)
	libstdc++.so.6 => /usr/lib/libstdc++.so.6 (0x1)
	libnvshmem_host.so.3 => not found
"""
    assert bundle.needed(ldd) == {"/usr/lib/libcurl.so.4"}
    with pytest.raises(bundle.Refused, match="libhdf5.so.103: not found"):
        bundle.needed("\tlibhdf5.so.103 => not found\n")


@pytest.mark.parametrize("mib, told", [(54, None), (56, "56.0 MiB are more than the 55.0 that the repository leaves of 64")])
def test_a_bundle_that_does_not_fit_beside_the_repository_is_rejected(tmp_path, mib, told):
    subprocess.run(["git", "init", "-q", tmp_path / "repository"], check=True)
    for name, size in (("tracked", 4), ("new", 5), ("ignored", 50)):
        with open(tmp_path / "repository" / name, "wb") as file:
            file.truncate(size << 20)
    (tmp_path / "repository" / ".gitignore").write_text("ignored\n.gitignore\n")
    subprocess.run(["git", "-C", tmp_path / "repository", "add", "tracked"], check=True)
    limit = bundle.LIMIT_MIB - bundle.repository_mib(tmp_path / "repository")
    assert limit == 55
    (tmp_path / "bundle").mkdir()
    with open(tmp_path / "bundle" / "large", "wb") as file:
        file.truncate(mib << 20)
    if told:
        with pytest.raises(bundle.Refused, match=told):
            bundle.check(tmp_path / "bundle", limit)
    else:
        assert bundle.check(tmp_path / "bundle", limit) == mib


@pytest.mark.long
def test_the_peer_network_equals_torchvision_resnet50():
    torchvision = pytest.importorskip("torchvision")
    import peer_steps

    def shapes(model):
        return sorted(tuple(value.shape) for value in model.state_dict().values())

    assert shapes(peer_steps.resnet50()) == shapes(torchvision.models.resnet50())


@pytest.mark.long
def test_all_steps_run_on_the_stand_in_device(tmp_path):
    """The same code as on a GPU, with tiny sizes. Two ranks have one device there, too."""
    folder, file = tmp_path / "bundle", tmp_path / "found.jsonl"
    (folder / "bin").mkdir(parents=True)
    for program in ("trainer/rollcall-train", "trainer/rollcall-bench-collectives", "trainer/rollcall-checkpoint", "tests/kernels_gpu_test"):
        (folder / "bin" / pathlib.Path(program).name).symlink_to(BUILD / program)
    bundle.pack_images(BUILD / "trainer" / "rollcall-pack", folder / "images.h5")
    torch = pytest.importorskip("torch").__version__
    (folder / "bundle.json").write_text(json.dumps({"torch": ".".join(torch.split(".")[:2])}))
    for call in steps.CALLS:
        done = subprocess.run([ROOT / "scripts/gpu-check", "run", f"--call={call}", f"--bundle={folder}", f"--python={sys.executable}",
                               "--device=stand_in", f"--json={file}"], capture_output=True, text=True, check=False,
                              env={**os.environ, "OMP_NUM_THREADS": "1", "STAND_IN_KERNELS": "1", "STAND_IN_UUID": "GPU-1"})
        assert done.returncode == 0, done.stdout + done.stderr
    lines = [json.loads(told) for told in file.read_text().splitlines()]
    more = {1: steps.IF_TIME, 2: ()}
    assert [(told["call"], told["step"]) for told in lines] == [
        (call, step.name) for call in steps.CALLS for step in (*steps.CALLS[call], *more[call])]
    skipped = {told["step"]: told["told"] for told in lines if told["status"] != OK}
    assert skipped == {"kernels of a step": "only a GPU has counters", steps.COMPILED: "a CPU compiles for minutes",
                       steps.AUTOTUNED: "a CPU compiles for minutes", steps.GRAPHS: "only a GPU has cuDNN"}
    assert all(outcome == "met" for goal, _, outcome in check.judged(lines) if goal.promise), done.stdout
