"""The parts of scripts/gpu-check that need neither a GPU nor a build."""
import json
import os
import pathlib
import subprocess
import sys

import h5py
import pytest

ROOT = pathlib.Path(os.environ.get("ROLLCALL_SOURCE_DIR", pathlib.Path(__file__).parents[2]))
sys.path.insert(0, str(ROOT / "benchmarks" / "gpu"))

import bundle  # noqa: E402
import check  # noqa: E402
import goals  # noqa: E402
import machine  # noqa: E402
import photos  # noqa: E402
import speeds  # noqa: E402
import start  # noqa: E402
import throughput  # noqa: E402
import trainings  # noqa: E402
from report import Budget, Failure, Report  # noqa: E402

pytestmark = [pytest.mark.python, pytest.mark.long]

NO_GPU = "CUDA driver version is insufficient for CUDA runtime version"


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def report(no_gpu="", seconds=540, file=None):
    clock = Clock()
    told = []
    made = Report(Budget(seconds, clock), no_gpu, file, told.append)
    return made, clock, told


def statuses(made):
    return [part["status"] for part in made.parts]


def test_without_a_gpu_only_gpu_parts_are_skipped_with_the_reason(tmp_path):
    made, _, told = report(NO_GPU, file=tmp_path / "build" / "gpu-check.json")
    made.part("on the GPU", 1, lambda: pytest.fail("must not run"))
    made.part("on the CPU", 1, lambda: "well", needs_gpu=False)
    assert told == [f"skipped   on the GPU: {NO_GPU}", "ok        on the CPU: well"]
    assert made.exit_code() == 77
    written = json.loads((tmp_path / "build" / "gpu-check.json").read_text())
    assert written["no_gpu"] == NO_GPU and [part["status"] for part in written["parts"]] == ["skipped", "ok"]


def test_without_a_gpu_no_throughput_is_measured():
    made, _, _ = report(NO_GPU)
    throughput.measure(None, made)
    assert statuses(made) == ["skipped"] * len(throughput.PLAN) and made.speeds == []


def test_a_failing_part_is_one_line_and_the_others_run():
    made, _, told = report()

    def fails():
        raise Failure("rollcall-train: exit code 69:\nno driver")

    made.part("first", 1, fails)
    made.part("second", 1, lambda: {}["key"])
    made.part("third", 1, lambda: None)
    assert told == ["FAILED    first: rollcall-train: exit code 69: no driver", "FAILED    second: KeyError: 'key'", "ok        third"]
    assert made.exit_code() == 1


def test_parts_beyond_the_time_budget_are_left_out():
    made, clock, _ = report(seconds=100)
    assert made.budget.limit(120) == 100 and made.budget.limit(30) == 30
    clock.now = 90
    made.part("long", 20, lambda: pytest.fail("must not run"))
    made.part("short", 5, lambda: "")
    assert statuses(made) == ["left out", "ok"] and "10 s are left" in made.parts[0]["detail"]
    clock.now = 200
    assert made.budget.limit(30) == 1  # so that a program is stopped instead of running forever
    assert made.exit_code() == 0


class Side:
    detail = ""

    def __init__(self, order, name, fails_at=None):
        self.order, self.name, self.fails_at, self.turns = order, name, fails_at, 0

    def turn(self, seconds):
        self.turns += 1
        self.order.append(self.name)
        if self.turns == self.fails_at:
            raise Failure("out of memory")
        return 100.0 * self.turns


def test_sides_alternate_and_a_failed_one_stops():
    made, _, told = report()
    order = []
    numbers = throughput.interleaved({"a": Side(order, "a"), "b": Side(order, "b", fails_at=2)}, made, "64-bf16")
    assert order == ["a", "b", "a", "b", "a"]
    assert numbers == {"a": [100, 200, 300], "b": [100]}
    assert told == ["FAILED    b, 64-bf16: out of memory, after 1 of 3 turns"]


def test_a_side_out_of_time_is_left_out_by_name(tmp_path):
    made, clock, told = report(seconds=110)

    class Slow:
        def turn(self, seconds):
            clock.now += seconds
            if seconds < throughput.MOST_OF_A_TURN:
                raise throughput.TooLate("no answer")
            return 100.0

    assert throughput.interleaved({"a": Slow(), "b": Slow(), "c": Slow()}, made, "64-bf16") == {"a": [100], "b": [], "c": []}
    assert told == [f"left out  {name}, 64-bf16: the time is over, after {turns} of 3 turns" for name, turns in (("b", 0), ("c", 0), ("a", 1))]


@pytest.mark.parametrize("error, status", [(Failure("out of memory"), "FAILED"), (subprocess.TimeoutExpired("rollcall-train", 30), "left out"),
                                           (throughput.TooLate("no answer"), "left out"), (BrokenPipeError(), "FAILED")])
def test_a_failure_near_the_end_is_not_taken_for_a_timeout(error, status):
    class Fails:
        def turn(self, seconds):
            raise error

    made, _, _ = report(seconds=throughput.MOST_OF_A_TURN - 30)
    throughput.interleaved({"a": Fails()}, made, "64-bf16")
    assert statuses(made) == [status] and made.exit_code() == (status == "FAILED")
    made, _, _ = report(seconds=throughput.MOST_OF_A_TURN + 30)  # which nothing but itself has cut
    throughput.interleaved({"a": Fails()}, made, "64-bf16")
    assert statuses(made) == ["FAILED"]


def test_photos_are_packed_repeatedly_into_a_dataset(tmp_path):
    bundle.make_photos(ROOT, tmp_path / "photos")
    assert len(list((tmp_path / "photos").iterdir())) == bundle.PHOTOS and not (tmp_path / "photos.tree").exists()

    class Built:
        bundle = tmp_path

        def run(self, program, *arguments, seconds):
            return machine.output([pathlib.Path(os.environ["ROLLCALL_BUILD_DIR"], "trainer", program), *arguments], seconds)

    packed = photos.pack(Built(), tmp_path / "there", 2 * bundle.PHOTOS + 5)
    with h5py.File(packed) as file:
        assert file["label"].shape == (2 * bundle.PHOTOS + 5,)
    (tmp_path / "none").mkdir()
    Built.bundle = tmp_path / "none"
    with pytest.raises(Failure, match="the bundle has no photos"):
        photos.pack(Built(), tmp_path / "nowhere", 5)


GROUP = throughput.Group("few", 100, "bf16", ("rollcall", "python compile", "python eager"), 10, 20)


def test_slow_sides_are_dropped_in_favour_of_later_ones():
    ours, compiled, eager = (GROUP.seconds(side) for side in GROUP.sides)
    assert (ours, compiled, eager) == (15, 62, 12)  # three turns at 3,000 images/s, and what a process needs to be ready
    assert throughput.fitting(GROUP, GROUP.all_seconds()) == (list(GROUP.sides), [])
    assert throughput.fitting(GROUP, GROUP.all_seconds() - 1) == (["rollcall", "python compile"], ["python eager"])
    assert throughput.fitting(GROUP, ours + eager) == (["rollcall", "python eager"], ["python compile"])
    assert throughput.fitting(GROUP, ours + eager - 1) == ([], list(GROUP.sides))  # one alone is compared with nothing


def test_a_group_without_time_is_reported_with_advice():
    made, _, told = report(seconds=10)
    throughput.measure(None, made, [GROUP])
    assert told == ["left out  throughput, few: rollcall, python compile, python eager: would not end in the 10 s that are left; "
                    "try --only=few"]


class TrainedElsewhere:
    """A machine whose rollcall-train takes a second for ten steps, ten with --deterministic=on, and whose Python is this peer."""
    PEER = """#!/bin/sh
case $* in *--mode=max-autotune*) exec sleep 60;; *--mode=eager*) echo 'no kernel image' >&2; exit 1;; esac
echo "$*" > {folder}/peer
echo '{{"seconds": 7}}'
while read steps; do echo "{{\\"images_per_second\\": $steps}}"; done
"""

    def __init__(self, folder):
        self.python, self.commands = folder / "python", []
        self.python.write_text(self.PEER.format(folder=folder))
        self.python.chmod(0o755)

    def run(self, program, *arguments, seconds):
        given = dict(argument.removeprefix("--").split("=", 1) for argument in arguments)
        self.commands.append(given)
        seconds = 10.0 if given.get("deterministic") == "on" else 1.0
        records = [{"event": "step", "step": step, "steps": 10, "seconds": seconds, "data_wait_fraction": 0.25}
                   for step in range(10, int(given["max-steps"]) + 1, 10)]
        (pathlib.Path(given["checkpoint-dir"]) / "metrics.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))


def test_a_compile_timeout_is_not_a_failure(tmp_path, monkeypatch):
    monkeypatch.setattr(throughput, "MOST_COMPILING", 1)
    made, _, told = report()
    assert throughput.started(TrainedElsewhere(tmp_path), made, GROUP, "python max-autotune") is None
    assert told == ["left out  python max-autotune, few: no answer within 1 s"]


def test_a_group_is_measured_by_alternating_sides(tmp_path):
    made, _, told = report()
    machine_there = TrainedElsewhere(tmp_path)
    sides = ("rollcall", "rollcall --deterministic=on", "python compile", "python eager")
    throughput.measure(machine_there, made, [throughput.Group("256-bf16", 256, "bf16", sides, 20, 40)])
    assert [(one["side"], one["images_per_second"], one["detail"]) for one in made.speeds] == [
        ("rollcall", [2560.0] * 3, "25 % of the time waited for data"),
        ("rollcall --deterministic=on", [256.0] * 3, "25 % of the time waited for data"),
        ("python compile", [40.0] * 3, "first steps 7 s")]
    assert told == ["FAILED    python eager, 256-bf16: no kernel image"]
    assert (tmp_path / "peer").read_text().split()[1:] == ["--batch-size=256", "--mode=compile", "--precision=bf16"]
    assert {(given["batch-size"], given["precision"], given["max-steps"]) for given in machine_there.commands} == {("256", "bf16", "60")}
    outcomes = {one["goal"]: one["measured"] for one in goals.judged(made.results())}
    assert outcomes["--deterministic=on, bf16, batch 256: speed of that without"] == pytest.approx(0.1)


def test_every_speed_goal_compares_two_sides_of_one_group():
    every = [speeds.speed(group.name, side, [1.0], "") for group in throughput.PLAN for side in group.sides]
    assert len(every) == len({(one["group"], one["side"]) for one in every})  # each name is of one measurement
    assert all(check.GROUPS[group.name] is group for group in throughput.PLAN)
    results = {"facts": {"gpu": "NVIDIA H200"}, "figures": {}, "speeds": every, "parts": []}
    kinds = {one["goal"]: one["measured"] is not None for one in goals.judged(results)}
    assert [name for name, measured in kinds.items() if not measured] == [goal.name for goal in goals.GOALS if goal.name in (
        "losses on the GPU and the CPU: largest relative difference", "resumed on the GPU, --deterministic=on: tensors and values that differ",
        "a graph, --deterministic=on: tensors and values that differ", "a save in the background: median stall, ms",
        "start to first step: seconds of eager PyTorch's")]


def test_only_selects_parts_by_name():
    every = check.parts_of(None)
    assert check.parts_of("throughput") == every[1:] and check.parts_of("jpeg,checks") == ["checks", "jpeg"]
    with pytest.raises(check.NoPart, match="--only: 256: is not a part of the check; try naming some of checks, start, 256-bf16, "):
        check.parts_of("jpeg,256")
    told = check.plan(["checks", "jpeg"]).splitlines()
    assert [line.split()[0] for line in told] == ["checks", "jpeg", "in"]
    assert int(told[2].split()[2]) == sum(int(line.split()[1]) for line in told[:2])


WELL = {goals.LOSSES: 1e-5, goals.RESUMED: 0, goals.IN_A_GRAPH: 0, goals.STALL: 1.6, goals.START: 0.4}


def judged(figures=(), of_sides=()):
    made, _, _ = report()
    made.figures = {**WELL, **dict(figures)}
    for group, side, *numbers in of_sides:
        made.speed(group, side, numbers, "")
    return made, {one["goal"]: one["outcome"] for one in goals.judged(made.results())}


@pytest.mark.parametrize("figure, goal", [({goals.LOSSES: 1.1e-4}, "losses on the GPU and the CPU: largest relative difference"),
                                          ({goals.RESUMED: 1}, "resumed on the GPU, --deterministic=on: tensors and values that differ"),
                                          ({goals.IN_A_GRAPH: 1}, "a graph, --deterministic=on: tensors and values that differ")])
def test_a_broken_promise_fails_the_run(figure, goal):
    made, outcomes = judged()
    assert outcomes[goal] == "met" and made.exit_code() == 0
    made, outcomes = judged(figure)
    assert [name for name, outcome in outcomes.items() if outcome == "missed"] == [goal] and made.exit_code() == 1
    assert next(line for line in made.tables().splitlines() if line.startswith(goal)).endswith("missed: a promise")


@pytest.mark.parametrize("figures, of_sides, goal", [
    ({goals.STALL: 2.1}, (), "a save in the background: median stall, ms"),
    ({goals.START: 0.51}, (), "start to first step: seconds of eager PyTorch's"),
    ({}, [("256-bf16", "rollcall", 124), ("256-bf16", "python eager", 100)], "bf16, batch 256: speed of eager PyTorch's"),
    ({}, [("256-fp16", "rollcall", 109), ("256-fp16", "python max-autotune", 100)],
     "fp16, batch 256: speed of torch.compile's, max-autotune"),
    ({}, [("64-fp16", "rollcall --cuda-graph=on", 129), ("64-fp16", "python compile", 100)],
     "fp16, batch 64, a graph: speed of torch.compile's"),
    ({}, [("jpeg", "rollcall --data=photos", 96), ("jpeg", "rollcall", 100)], "packed JPEGs, 4 workers: speed of synthetic images'")])
def test_a_missed_speed_goal_is_reported_without_failing(figures, of_sides, goal):
    made, outcomes = judged(figures, of_sides)
    assert [name for name, outcome in outcomes.items() if outcome == "missed"] == [goal] and made.exit_code() == 0
    # A little faster is enough.
    made, outcomes = judged({name: value * 0.95 for name, value in figures.items()},
                            [(group, side, number + (2 if number != 100 else 0)) for group, side, number in of_sides])
    assert outcomes[goal] == "met" and "missed" not in outcomes.values()


def test_unmeasured_goals_are_neither_met_nor_missed(tmp_path):
    file = tmp_path / "gpu-check.json"
    made, _, _ = report(file=file)
    made.speed("256-bf16", "rollcall", [3000.0], "")
    made.speed("64-bf16", "python eager", [1.0], "")  # of other turns
    made.speed("256-bf16", "rollcall --deterministic=on", [2400.0], "")
    written = {one["goal"]: one for one in json.loads(file.read_text())["goals"]}
    deterministic = written.pop("--deterministic=on, bf16, batch 256: speed of that without")
    assert (deterministic["outcome"], deterministic["measured"], deterministic["target"]) == ("told", 0.8, None)
    assert len(written) == len(goals.GOALS) - 1 and {one["outcome"] for one in written.values()} == {"not measured"}
    assert made.exit_code() == 0


@pytest.mark.parametrize("part, outcome", [(part, "FAILED") for goal in goals.GOALS for part in goal.parts] + [("NCCL, a rank alone", "met")])
def test_a_promise_whose_part_failed_is_broken(part, outcome):
    for figures in (WELL, {}):
        made, _, _ = report()
        made.figures = figures
        made.line(part, "FAILED", "exit code 139")
        of_promises = [one for one in goals.judged(made.results()) if one["promise"]]
        assert goals.broken(of_promises) == (outcome == "FAILED")
        assert any(one["outcome"] == "FAILED" for one in of_promises) == (outcome == "FAILED")


def test_the_parts_of_promises_exist_in_the_checks(tmp_path):
    class NoMachine:
        bundle = tmp_path

    made, _, _ = report(NO_GPU)
    trainings.check(NoMachine, made)
    assert {part for goal in goals.GOALS for part in goal.parts} <= {part["part"] for part in made.parts}


class Files:
    """What several runs have written, and what `goals` says of them."""

    def __init__(self, folder, capsys):
        self.files, self._folder, self._capsys = [], folder, capsys

    def add(self, *of_sides, figures=(), failed=(), **facts):
        made, _, _ = report(file=self._folder / f"{len(self.files)}.json")
        made.figures, made.facts = dict(figures), {"gpu": "NVIDIA H200, 580.82.07", "libtorch": "2.11.0", **facts}
        for group, side, *numbers in of_sides:
            made.speed(group, side, numbers, "")
        for part in failed:
            made.line(part, "FAILED")
        made.write()
        self.files.append(self._folder / f"{len(self.files)}.json")
        return self

    def judged(self):
        code = check.tell_goals(self)
        told = self._capsys.readouterr()
        return code, told.out or told.err

    def outcome(self, goal):
        """(measured, outcome) as the table has them."""
        line = next(line for line in self.judged()[1].splitlines() if line.startswith(goal))
        return tuple(line.removeprefix(goal).split()[-2:])


@pytest.fixture
def files(tmp_path, capsys):
    return Files(tmp_path, capsys)


JPEG = "packed JPEGs, 4 workers: speed of synthetic images'"
OURS, PHOTOS = ("jpeg", "rollcall"), ("jpeg", "rollcall --data=photos")


def test_several_runs_are_judged_together_by_group(files):
    files.add((*OURS, 100.0), (*PHOTOS, 98.0), ("256-bf16", "rollcall", 130.0), ("256-bf16", "python eager", 100.0))
    files.add((*OURS, 50.0, 50.0, 50.0))  # of other turns, and more of them
    assert files.outcome(JPEG) == ("0.980", "met")
    assert files.outcome("bf16, batch 256: speed of eager PyTorch's") == ("1.30", "met")
    files.add((*OURS, 100.0), (*PHOTOS, 90.0))
    assert files.outcome(JPEG) == ("0.900", "missed")
    assert files.outcome("bf16, batch 256: speed of eager PyTorch's") == ("1.30", "met")
    files.add((*OURS, 100.0, 100.0), (*PHOTOS, 99.0, 99.0)).add((*OURS, 100.0), (*PHOTOS, 98.0))  # more turns count for more
    assert files.outcome(JPEG) == ("0.990", "met") and files.judged()[0] == 0


def test_sides_of_different_runs_are_not_compared(files):
    assert files.add((*OURS, 100.0)).add((*PHOTOS, 98.0)).outcome(JPEG) == ("not", "measured")


@pytest.mark.parametrize("figure, value", [(goals.LOSSES, 1e-3), (goals.RESUMED, 3), (goals.IN_A_GRAPH, 1)])
def test_a_promise_broken_in_any_run_is_broken(files, figure, value):
    assert files.add(figures=WELL).judged()[0] == 0
    files.add(figures={**WELL, figure: value}).add(figures={**WELL, goals.STALL: 1.2}).add()
    code, told = files.judged()
    assert code == 1 and told.count("missed: a promise") == 1
    assert files.outcome("a save in the background: median stall, ms") == ("1.2", "met")  # the last, not the worst


def test_a_promise_whose_part_failed_in_any_run_is_broken(files):
    files.add(failed=[goals.resumption("cuda", "cuda")]).add(figures=WELL)
    code, told = files.judged()
    assert code == 1 and told.count("FAILED: a promise") == 1


@pytest.mark.parametrize("facts, told", [({"gpu": "NVIDIA L4, 580.82.07"}, "gpu: NVIDIA L4, 580.82.07, not NVIDIA H200, 580.82.07"),
                                         ({"gpu": "NVIDIA H200, 570.1"}, "gpu: NVIDIA H200, 570.1, not NVIDIA H200, 580.82.07"),
                                         ({"libtorch": "2.15.0"}, "libtorch: 2.15.0, not 2.11.0"),
                                         ({"python": {"torch": "2.15.0"}}, "python: {'torch': '2.15.0'}, not None")])
def test_files_of_several_machines_are_rejected(files, facts, told):
    files.add().add().add(**facts)
    assert files.judged() == (64, f"rollcall: gpu-check: goals: {files.files[2]}: {told} as in {files.files[0]}; "
                                      "try comparing files of one machine\n")


def test_files_not_written_by_run_are_rejected(files, tmp_path):
    other = tmp_path / "other"
    files.add().files.append(other)
    for text in ("[]", "{", '{"facts": []}', '{"facts": {}, "figures": {}, "speeds": [{}], "parts": []}'):
        other.write_text(text)
        assert files.judged() == (64, f"rollcall: gpu-check: goals: {other}: was not written by gpu-check run; "
                                      "try naming the file of its --json\n")


def test_a_side_with_fewer_turns_is_reported_and_not_judged():
    made, outcomes = judged(of_sides=[("256-bf16", "rollcall", 130, 130), ("256-bf16", "python eager", 100),
                                      ("256-bf16", "python max-autotune", 100, 100), ("256-fp16", "rollcall", 130)])
    assert outcomes["bf16, batch 256: speed of eager PyTorch's"] == "not measured"
    assert outcomes["bf16, batch 256: speed of torch.compile's, max-autotune"] == "met"
    assert made.tables().splitlines()[-1] == "256-bf16: python eager has 1 of 2 turns, and is compared with nothing"
    made.facts = {"gpu": "NVIDIA H200"}
    share = "bf16, batch 256: speed of what memory allows"
    assert {one["goal"]: one["outcome"] for one in goals.judged(made.results())}[share] == "told"
    made.speed("256-bf16", "python compile", [100, 100, 100], "")
    assert {one["goal"]: one["outcome"] for one in goals.judged(made.results())}[share] == "not measured"


def test_a_folder_that_is_not_a_bundle_is_not_deleted(tmp_path):
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(bundle.Refused, match="is not a bundle and not empty"):
        bundle.refuse_what_is_no_bundle(tmp_path)
    (tmp_path / "bundle.json").write_text("{}")
    bundle.refuse_what_is_no_bundle(tmp_path)
    bundle.refuse_what_is_no_bundle(tmp_path / "new")


@pytest.mark.parametrize("data_only", [False, True])
def test_photos_in_a_folder_that_is_not_a_bundle_are_kept(tmp_path, data_only, capsys):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "wedding.jpg").touch()
    assert bundle.make(ROOT, tmp_path, "2.15", data_only) == 1
    assert (tmp_path / "photos" / "wedding.jpg").exists()
    assert "is not a bundle and not empty" in capsys.readouterr().err


def test_the_speed_table_has_medians_and_ratios_within_groups():
    of_sides = [speeds.speed("64-bf16", "rollcall", [2400.0, 2500.0, 2600.0], "2 % of the time waited for data"),
                speeds.speed("64-bf16", "python eager", [2000.0] * 3, "first steps 9 s"),
                speeds.speed("64-bf16", "python compile", [2500.0], ""),
                speeds.speed("256-bf16", "rollcall", [3000.0], ""),
                speeds.speed("256-bf16", "python max-autotune", [2500.0], "")]
    # 8,920 images/s at 3.35 TB/s
    assert speeds.table(of_sides, "NVIDIA H100 80GB HBM3, 580.82.07, 81559 MiB, 700.00 W").splitlines() == [
        "turns     side                 images/s  least  most  runs  x rollcall  x eager  x compile  x max-autotune  of memory's",
        "64-bf16   rollcall                 2500   2400  2600     3        1.00     1.25          -               -         28 %"
        "  2 % of the time waited for data",
        "64-bf16   python eager             2000   2000  2000     3        0.80     1.00          -               -         22 %"
        "  first steps 9 s",
        "64-bf16   python compile           2500   2500  2500     1           -        -          -               -         28 %",
        "256-bf16  rollcall                 3000   3000  3000     1        1.00        -          -            1.20         34 %",
        "256-bf16  python max-autotune      2500   2500  2500     1        0.83        -          -            1.00         28 %"]
    assert " % " not in speeds.table(of_sides, "another one").replace("2 % of the time", "")
    assert speeds.table([], "another one") == ""


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


def test_a_too_large_bundle_is_rejected(tmp_path):
    with open(tmp_path / "large", "wb") as file:
        file.truncate(61 * 2**20)
    with pytest.raises(bundle.Refused, match="61.0 MiB are more than the 60"):
        bundle.check(tmp_path)


def test_differing_losses_are_reported_with_their_step():
    assert trainings.close({1: 2.0, 2: 1.00001}, {1: 2.0, 2: 1.0, 3: 9.0}) == "losses within 1.0e-05"
    with pytest.raises(Failure, match="step 2 is 1.1, not 1.0"):
        trainings.close({1: 2.0, 2: 1.1}, {1: 2.0, 2: 1.0})


def test_checkpoints_with_only_other_paths_count_as_equal():
    answer = {"equal": False, "equal_tensors": 193, "tensors": [], "values": ["/config/argv", "/config/json"]}
    assert trainings.told_difference(answer) == "the same bits"
    changed = {"name": "fc.weight", "what": "differs", "difference": {"max_absolute": 3e-7}}
    assert trainings.told_difference({**answer, "tensors": [changed]}) == "1 of 194 tensors differ, by 3.0e-07 at most"
    for other in ({"values": ["/progress/step"]}, {"tensors": [{"name": "fc.weight", "what": "only in a"}]}):
        with pytest.raises(Failure, match="other contents"):
            trainings.told_difference({**answer, **other})


def test_skipped_kernel_tests_are_a_failure():
    assert trainings.told_tests("[==========] 4 tests\n[  PASSED  ] 4 tests.\n") == "[  PASSED  ] 4 tests."
    with pytest.raises(Failure, match="skipped"):
        trainings.told_tests("[  PASSED  ] 3 tests.\n[  SKIPPED ] 1 test, listed below:\n[  SKIPPED ] KernelsTest.OfImages\n")


def test_stalls_exclude_the_last_save():
    saves = [{"written": True, "stall_seconds": seconds} for seconds in (0.001, 0.003, 0.0015, 0.9)]
    assert trainings.stalls_of(saves) == [1, 3, 1.5]
    for wrong in (saves[:1], [{**saves[0], "written": False}, *saves]):
        with pytest.raises(Failure, match="not written"):
            trainings.stalls_of(wrong)


class Trained(trainings.Trainings):
    """Trainings with given losses and checkpoints: `loss` on a GPU, `changed` tensors between two checkpoints."""

    def __init__(self, folder, loss=1.0, changed=(), values=()):
        folder.mkdir(exist_ok=True)
        super().__init__(None, folder, None, {})
        self.loss, self.changed, self.values = loss, list(changed), ["/config/argv", *values]
        for device in ("cpu", "cuda"):
            self._train(folder / device, device)
            (folder / device / trainings.checkpoint(trainings.SAVED)).write_text("")

    def _train(self, folder, device, steps=trainings.STEPS, *_):
        first = trainings.SAVED + 1 if "-" in folder.name and "graph" not in folder.name else 1
        losses = dict.fromkeys(range(first, steps + 1), self.loss if device == "cuda" else 1.0)
        folder.mkdir(exist_ok=True)
        (folder / "metrics.jsonl").write_text("".join(json.dumps({"event": "step", "step": step, "loss": loss}) + "\n"
                                                      for step, loss in losses.items()))
        return losses

    def _differences(self, a, b, step=trainings.STEPS):
        return {"equal_tensors": 193, "tensors": self.changed, "values": self.values}


CHANGED = {"name": "fc.weight", "what": "differs", "difference": {"max_absolute": 3e-7}}


def test_bit_identity_is_required_on_one_device_and_in_a_graph(tmp_path):
    same, other = Trained(tmp_path / "same"), Trained(tmp_path / "other", changed=[CHANGED])
    for of_one_device in (lambda runs: runs.resumed("cuda", "cuda"), lambda runs: runs.resumed("cpu", "cpu"), lambda runs: runs.in_a_graph()):
        assert of_one_device(same) == "losses within 0.0e+00; the same bits"
        with pytest.raises(Failure, match="1 of 194 tensors differ, by 3.0e-07 at most, with --deterministic=on"):
            of_one_device(other)
    assert other.resumed("cpu", "cuda") == "losses within 0.0e+00; 1 of 194 tensors differ, by 3.0e-07 at most"
    assert same._figures == {goals.RESUMED: 0, goals.IN_A_GRAPH: 0} and other._figures == {goals.RESUMED: 1, goals.IN_A_GRAPH: 1}


def test_differing_values_break_bit_identity(tmp_path):
    runs = Trained(tmp_path, values=["/progress/step"])
    for part in (lambda: runs.resumed("cuda", "cuda"), runs.in_a_graph):
        with pytest.raises(Failure, match="other contents"):
            part()
    assert runs._figures == {goals.RESUMED: 1, goals.IN_A_GRAPH: 1}


def test_differing_gpu_losses_fail_and_are_recorded(tmp_path):
    runs = Trained(tmp_path, loss=1.001)
    with pytest.raises(Failure, match="relative difference 1.0e-03"):
        runs.same_losses("cuda")
    assert runs._figures[goals.LOSSES] == pytest.approx(1e-3)


def test_a_start_is_timed_until_the_expected_line():
    said = "print('epoch 1/2  step 1/21  loss 7'); import sys; sys.stdout.flush(); input()"
    assert 0 < start.until([sys.executable, "-c", said], "step 1/", 60) < 60
    with pytest.raises(Failure, match="no GPU"):
        start.until([sys.executable, "-c", "import sys; sys.exit('no GPU')"], "step 1/", 60)
    with pytest.raises(Failure, match="no step 1/ within 0 s"):
        start.until([sys.executable, "-c", "import time; time.sleep(60)"], "step 1/", 0.1)


def test_the_driver_error_is_extracted_from_the_message():
    assert machine.reason(f"rollcall-train: exit code 69: rollcall: --device: cuda: {NO_GPU}; try nvidia-smi (rank 0 on a)") == NO_GPU
    assert machine.reason("error while loading shared libraries: libhdf5.so.103") == "error while loading shared libraries: libhdf5.so.103"


def test_run_without_a_bundle_is_an_error(tmp_path):
    done = subprocess.run([ROOT / "scripts/gpu-check", "run", f"--bundle={tmp_path}", f"--json={tmp_path / 'x.json'}"],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 69 and "is not a bundle; try scripts/gpu-check bundle" in done.stderr


def test_the_peer_network_equals_torchvision_resnet50():
    torchvision = pytest.importorskip("torchvision")
    import peer_steps

    def shapes(model):
        return sorted(tuple(value.shape) for value in model.state_dict().values())

    assert shapes(peer_steps.resnet50()) == shapes(torchvision.models.resnet50())
