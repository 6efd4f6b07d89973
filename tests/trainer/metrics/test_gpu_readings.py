"""What a training reports about its device: NVML's readings (tests/support/stand_in_nvml.cpp) of the stand-in device."""
import json
import re
import subprocess

import pytest

import trainer_ranks
from trainer_ranks import SMALL

pytestmark = [pytest.mark.python, pytest.mark.long]

TRAINING = (*SMALL, "--data=fake", "--fake-size=100", "--num-classes=10", "--epochs=1", "--valid-epochs=0", "--checkpoint-epochs=0",
            "--log-steps=1", "--device=stand_in", "--rank-seconds=3600")


def run(folder, numbers, *options, ranks=2):
    """What was printed, and the records, where NVML gives `numbers`: see stand_in_nvml.cpp."""
    folder.mkdir()
    (folder / "libnvidia-ml.so.1").symlink_to(trainer_ranks.BUILD / "tests" / "libstand_in_nvml.so")
    (folder / "numbers").write_text(numbers)
    text = trainer_ranks.run(folder / "run", *TRAINING, *options, ranks=ranks,
                             env={"LD_LIBRARY_PATH": str(folder), "STAND_IN_NVML": str(folder / "numbers")})
    return text, [json.loads(line) for line in (folder / "run" / "metrics.jsonl").read_text().splitlines()]


def of(records, event):
    return [record for record in records if record["event"] == event]


def test_gpu_load_memory_and_power_of_every_rank_are_recorded(tmp_path):
    text, records = run(tmp_path / "known", f"- -  75 {3 << 30} {8 << 30} 250000")
    assert re.search(r"img/s  GPU 75 %  3\.0/8\.0 GiB  500 W", text), text
    step = of(records, "step")[-1]
    assert (step["gpu_load"], step["gpu_memory_mib"], step["gpu_memory_total_mib"], step["gpu_watts"]) == (0.75, 3072, 8192, 500)
    assert step["images_per_joule"] == pytest.approx(step["images_per_second"] / 500)
    ranks, = of(records, "ranks")
    assert (ranks["gpu_load"], ranks["gpu_memory_mib"], ranks["gpu_memory_total_mib"]) == ([0.75] * 2, [3072] * 2, [8192] * 2)
    assert ranks["gpu_watts"] == [250] * 2
    end, = of(records, "end")
    steps = of(records, "step")
    rate = sum(step["samples"] for step in steps) / sum(step["seconds"] for step in steps)
    assert end["images_per_joule"] == pytest.approx(rate / 500, rel=0.02)
    told, = re.findall(r"^(\S+) images per joule of the GPUs \((\S+) img/s, 500 W\)", text, re.M)
    assert float(told[0]) == pytest.approx(end["images_per_joule"], rel=1e-3)


def test_values_unknown_to_nvml_are_not_recorded(tmp_path):
    text, records = run(tmp_path / "some", "- -  75 - - -")
    assert "  GPU 75 %  " in text and "joule" not in text
    assert {name for record in records for name in record if "gpu" in name or "joule" in name} == {"gpu_load"}
    text, records = run(tmp_path / "none", "- -", ranks=1)
    assert "GPU" not in text and not any("gpu" in name for record in records for name in record)


def test_the_end_reports_peak_device_memory_and_its_rank(tmp_path):
    """The allocator's own numbers: no NVML. With sixteen times the images, activations are most of it."""
    peaks = []
    for batch in (2, 32):
        folder = tmp_path / str(batch)
        text = trainer_ranks.run(folder, *TRAINING, f"--batch-size={batch}", "--max-steps=1")
        end = json.loads((folder / "metrics.jsonl").read_text().splitlines()[-1])
        peaks.append((end["device_peak_allocated_bytes"], end["device_peak_reserved_bytes"]))
        told = r"^peak device memory: \d+\.\d MiB allocated \(rank [01]\), \d+\.\d MiB reserved \(rank [01]\)  \["
        assert re.search(told, text, re.M), text
    assert all(0 < allocated <= reserved for allocated, reserved in peaks)
    assert peaks[1][0] > 4 * peaks[0][0]
    report = [trainer_ranks.BUILD / "trainer" / "rollcall-report", tmp_path / "32"]
    told = subprocess.run([*report, "--json"], check=True, capture_output=True, text=True).stdout
    assert json.loads(told)["device_peak_bytes"] == peaks[1][0]
    assert " of a device's" in subprocess.run([*report, "--text"], check=True, capture_output=True, text=True).stdout
    text = trainer_ranks.run(tmp_path / "cpu", *TRAINING, "--device=cpu", "--max-steps=1")
    assert "device memory" not in text and " of a device's" not in text


@pytest.mark.parametrize("env", [{"STAND_IN_FAILS": "30"}, {"STAND_IN_COUNT": "0"}], ids=["in a step", "at the start"])
def test_a_lost_gpu_is_reported_with_the_nvml_error(tmp_path, env):
    (tmp_path / "libnvidia-ml.so.1").symlink_to(trainer_ranks.BUILD / "tests" / "libstand_in_nvml.so")
    (tmp_path / "numbers").write_text("- -  75 1 2 3  75 lost")
    text = trainer_ranks.run(tmp_path / "run", *TRAINING, code=69,
                             env={"LD_LIBRARY_PATH": str(tmp_path), "STAND_IN_NVML": str(tmp_path / "numbers"), **env})
    told = [line for line in text.splitlines() if line.startswith("rollcall: ") and "warning" not in line]
    assert len(told) == 1 and "; NVML says: GPU 1: GPU is lost; try " in told[0], text
