"""scripts/gpu-check: what of it needs neither a GPU nor a build."""
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
import machine  # noqa: E402
import photos  # noqa: E402
import start  # noqa: E402
import throughput  # noqa: E402
import trainings  # noqa: E402
from report import Budget, Failure, Report  # noqa: E402

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


def test_without_a_gpu_its_parts_are_skipped_with_the_drivers_reason_and_the_others_run(tmp_path):
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
    assert statuses(made) == ["skipped"] * 5 and made.table() == ""


def test_what_fails_is_one_line_and_the_rest_goes_on():
    made, _, told = report()

    def fails():
        raise Failure("rollcall-train: exit code 69:\nno driver")

    made.part("first", 1, fails)
    made.part("second", 1, lambda: {}["key"])
    made.part("third", 1, lambda: None)
    assert told == ["FAILED    first: rollcall-train: exit code 69: no driver", "FAILED    second: KeyError: 'key'", "ok        third"]
    assert made.exit_code() == 1


def test_what_would_not_end_in_time_is_left_out():
    made, clock, _ = report(seconds=100)
    assert made.budget.limit(120) == 100 and made.budget.limit(30) == 30
    clock.now = 90
    made.part("long", 20, lambda: pytest.fail("must not run"))
    made.part("short", 5, lambda: "")
    assert statuses(made) == ["left out", "ok"] and "10 s are left" in made.parts[0]["detail"]
    clock.now = 200
    assert made.budget.limit(30) == 1  # a program that is stopped, not one that runs for ever
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


def test_sides_take_turns_and_one_that_fails_has_no_more():
    made, _, told = report()
    order = []
    numbers = throughput.interleaved({"a": Side(order, "a"), "b": Side(order, "b", fails_at=2)}, made, 64)
    assert order == ["a", "b", "a", "b", "a"]
    assert numbers == {"a": [100, 200, 300], "b": [100]}
    assert told == ["FAILED    b, batch 64: out of memory, after 1 of 3 turns"]


def test_a_side_whose_time_is_over_is_left_out_by_name(tmp_path):
    made, clock, told = report(seconds=110)

    class Slow:
        def turn(self, seconds):
            clock.now += seconds
            if seconds < throughput.MOST_OF_A_TURN:
                raise Failure("ended by the clock")
            return 100.0

    assert throughput.interleaved({"a": Slow(), "b": Slow(), "c": Slow()}, made, 64) == {"a": [100], "b": [], "c": []}
    assert told == [f"left out  {name}, batch 64: the time is over, after {turns} of 3 turns" for name, turns in (("b", 0), ("c", 0), ("a", 1))]


def test_photos_are_packed_over_and_over_into_what_a_training_takes(tmp_path):
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


def test_speed_from_jpegs_is_told_as_a_share_of_that_from_synthetic_images():
    made, _, told = report()
    from_jpegs, synthetic = (" ".join(side) for side in (throughput.FROM_JPEGS, throughput.SYNTHETIC))
    throughput.compare_data({from_jpegs: [900, 950, 990], synthetic: [1000]}, made)
    throughput.compare_data({from_jpegs: [], synthetic: [1000]}, made)
    assert told == ["ok        packed JPEGs, 4 workers: 0.950 of the speed from synthetic images, short of the goal, 0.97"]


def test_a_folder_that_is_no_bundle_is_not_deleted(tmp_path):
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(bundle.Refused, match="is no bundle, and not empty"):
        bundle.refuse_what_is_no_bundle(tmp_path)
    (tmp_path / "bundle.json").write_text("{}")
    bundle.refuse_what_is_no_bundle(tmp_path)
    bundle.refuse_what_is_no_bundle(tmp_path / "new")


def test_the_table_has_medians_and_what_they_are_of_eager_pythons():
    made, _, _ = report()
    made.speed(64, "rollcall bf16", [2400.0, 2500.0, 2600.0], "2 % of the time waited for data")
    made.speed(64, "python eager bf16", [2000.0], "first steps 9 s")
    made.speed(256, "rollcall fp16", [3000.0], "")
    made.facts = {"gpu": "NVIDIA H100 80GB HBM3, 580.82.07, 81559 MiB, 700.00 W"}  # 8,920 images/s at 3.35 TB/s
    assert made.table().splitlines() == [
        "batch  side               images/s  least  most  runs  x eager  of memory's",
        "   64  rollcall bf16          2500   2400  2600     3     1.25         28 %  2 % of the time waited for data",
        "   64  python eager bf16      2000   2000  2000     1     1.00         22 %  first steps 9 s",
        "  256  rollcall fp16          3000   3000  3000     1        -         34 %"]
    made.facts = {"gpu": "another one"}
    assert " % " not in made.table().replace("2 % of the time", "")


def test_symbols_that_the_other_machine_lacks_are_named():
    objdump = """
0000000000000000      DF *UND*  0000000000000000 (GLIBC_2.34) pthread_create
0000000000000000      DF *UND*  0000000000000000 (GLIBC_2.38) __isoc23_strtol
0000000000000000      DO *UND*  0000000000000000  GLIBCXX_3.4.30 _ZSt4cout
0000000000000000      DF *UND*  0000000000000000 (GLIBCXX_3.4.32) _ZSt21ios_base_library_initv
0000000000000000  w   D  *UND*  0000000000000000  Base        __gmon_start__
0000000000001000 g    DF .text  0000000000000010 (GLIBC_2.99) own
"""
    assert bundle.too_new(objdump) == ["__isoc23_strtol (GLIBC_2.38)", "_ZSt21ios_base_library_initv (GLIBCXX_3.4.32)"]


def test_libraries_that_the_other_machine_has_are_not_carried():
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


def test_a_bundle_that_is_too_large_is_refused(tmp_path):
    with open(tmp_path / "large", "wb") as file:
        file.truncate(61 * 2**20)
    with pytest.raises(bundle.Refused, match="61.0 MiB are more than 60"):
        bundle.check(tmp_path)


def test_losses_that_are_not_close_are_told_with_their_step():
    assert trainings.close({1: 2.0, 2: 1.00001}, {1: 2.0, 2: 1.0, 3: 9.0}) == "losses within 1.0e-05"
    with pytest.raises(Failure, match="step 2 is 1.1, not 1.0"):
        trainings.close({1: 2.0, 2: 1.1}, {1: 2.0, 2: 1.0})


def test_checkpoints_are_equal_where_only_their_folders_differ():
    answer = {"equal": False, "equal_tensors": 193, "tensors": [], "values": ["/config/argv", "/config/json"]}
    assert trainings.told_difference(answer) == "the same bits"
    changed = {"name": "fc.weight", "what": "differs", "difference": {"max_absolute": 3e-7}}
    assert trainings.told_difference({**answer, "tensors": [changed]}) == "1 of 194 tensors differ, by 3.0e-07 at most"
    for other in ({"values": ["/progress/step"]}, {"tensors": [{"name": "fc.weight", "what": "only in a"}]}):
        with pytest.raises(Failure, match="other contents"):
            trainings.told_difference({**answer, **other})


def test_tests_that_were_skipped_have_shown_nothing():
    assert trainings.told_tests("[==========] 4 tests\n[  PASSED  ] 4 tests.\n") == "[  PASSED  ] 4 tests."
    with pytest.raises(Failure, match="skipped"):
        trainings.told_tests("[  PASSED  ] 3 tests.\n[  SKIPPED ] 1 test, listed below:\n[  SKIPPED ] KernelsTest.OfImages\n")


def test_stalls_of_saves_are_told_but_for_the_last_ones():
    saves = [{"written": True, "stall_seconds": seconds} for seconds in (0.001, 0.003, 0.0015, 0.9)]
    assert trainings.told_stalls(saves) == "1.5 ms, 3.0 at most, in 3 saves"
    for wrong in (saves[:1], [{**saves[0], "written": False}, *saves]):
        with pytest.raises(Failure, match="not written"):
            trainings.told_stalls(wrong)


def test_a_start_is_timed_until_the_line_that_is_waited_for():
    said = "print('epoch 1/2  step 1/21  loss 7'); import sys; sys.stdout.flush(); input()"
    assert 0 < start.until([sys.executable, "-c", said], "step 1/", 60) < 60
    with pytest.raises(Failure, match="no GPU"):
        start.until([sys.executable, "-c", "import sys; sys.exit('no GPU')"], "step 1/", 60)
    with pytest.raises(Failure, match="no step 1/ within 0 s"):
        start.until([sys.executable, "-c", "import time; time.sleep(60)"], "step 1/", 0.1)


def test_the_drivers_reason_is_what_stands_between_the_setting_and_the_advice():
    assert machine.reason(f"rollcall-train: exit code 69: rollcall: --device: cuda: {NO_GPU}; try nvidia-smi (rank 0 on a)") == NO_GPU
    assert machine.reason("error while loading shared libraries: libhdf5.so.103") == "error while loading shared libraries: libhdf5.so.103"


def test_no_bundle_is_an_error(tmp_path):
    done = subprocess.run([ROOT / "scripts/gpu-check", "run", f"--bundle={tmp_path}", f"--json={tmp_path / 'x.json'}"],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 69 and "is no bundle; try scripts/gpu-check bundle" in done.stderr


def test_the_peers_network_is_resnet50():
    torchvision = pytest.importorskip("torchvision")
    import peer_steps

    def shapes(model):
        return sorted(tuple(value.shape) for value in model.state_dict().values())

    assert shapes(peer_steps.resnet50()) == shapes(torchvision.models.resnet50())
