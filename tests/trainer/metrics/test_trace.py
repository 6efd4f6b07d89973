"""The trace of --trace-steps: the work of each rank in only those steps, in one time base, for Perfetto."""
import json
import re
import signal
import subprocess
import threading
import time

import pytest
import trainer_ranks

pytestmark = [pytest.mark.python, pytest.mark.long]

RUN = (*trainer_ranks.SMALL, "--data=fake", "--fake-size=64", "--seed=3", "--valid-epochs=0", "--checkpoint-epochs=0",
       "--train-num-workers=1")
PARTS = ("stem", "layer1", "layer2", "layer3", "head", "loss")


def trace(folder, first, last):
    return json.loads((folder / f"trace-{first}-{last}.json").read_text())["traceEvents"]


def spans(events, rank, category, thread=None):
    """(name, begin, end) of a rank's spans, in microseconds; those that may overlap have a beginning and an end."""
    own = [event for event in events if event["pid"] == rank and event.get("cat") == category and thread in (None, event["tid"])]
    whole = [(event["name"], event["ts"], event["ts"] + event["dur"]) for event in own if event["ph"] == "X"]
    begun = {event["id2"]["local"]: event for event in own if event["ph"] == "b"}
    ended = {event["id2"]["local"]: event for event in own if event["ph"] == "e"}
    assert begun.keys() == ended.keys()
    return sorted(whole + [(begun[key]["name"], begun[key]["ts"], ended[key]["ts"]) for key in begun], key=lambda span: span[1])


def record_of(folder):
    found, = trainer_ranks.records(folder, "trace")
    record, = [line for line in map(json.loads, (folder / "metrics.jsonl").read_text().splitlines()) if line["event"] == "trace"]
    assert found["file"] == record["file"]
    return record


@pytest.mark.parametrize("options", [("--parallel=ddp", "--backend=gloo"), ("--parallel=ddp", "--backend=ucx"), ("--parallel=fsdp",)],
                         ids=["ddp over gloo", "ddp over ucx", "fsdp"])
def test_the_trace_contains_all_ranks_model_parts_and_collectives(tmp_path, options):
    output = trainer_ranks.run(tmp_path, *RUN, "--max-steps=5", "--trace-steps=2-3", "--checkpoint-steps=1",
                               "--checkpoint-overlap=wait", "--clip-grad-norm=1", *options)
    assert f"trace: {tmp_path}/trace-2-3.json, for https://ui.perfetto.dev" in output
    events = trace(tmp_path, 2, 3)
    record = record_of(tmp_path)
    assert (record["first_step"], record["last_step"], record["clock_error_seconds"] < 0.05) == (2, 3, True)
    for rank in (0, 1):
        steps = spans(events, rank, "step")
        assert [name for name, *_ in steps] == ["2", "3"]
        begin, end = steps[0][1], steps[-1][2]
        own = [event for event in events if event["pid"] == rank and event["ph"] != "M"]
        assert all(begin <= event["ts"] and event["ts"] + event.get("dur", 0) <= end + 0.001 for event in own)
        compute = spans(events, rank, "compute")
        for _, step_begin, step_end in steps:
            within = {name: (first, last) for name, first, last in compute if step_begin <= first and last <= step_end}
            for part in PARTS:
                assert within[part][1] <= within[f"{part} backward"][0], part
            assert [within[f"{part} backward"] for part in reversed(PARTS)] == sorted(within[f"{part} backward"] for part in PARTS)
            assert within["stem backward"][1] <= within["clip gradients"][0] < within["optimizer"][0]
            assert within["stem"][1] <= within["layer1"][0] and within["layer3"][1] <= within["head"][0]
        assert {"wait for a batch", "read sample"} <= {name for name, *_ in spans(events, rank, "data")}
        assert {"forward", "backward", "totals of all ranks"} <= {name for name, *_ in spans(events, rank, "phase")}
        assert spans(events, rank, "copy") == []  # of batches to a device: the CPU has them already
        assert {"write checkpoint", "copy what is left"} <= {name for name, *_ in spans(events, rank, "save")}
        assert record["seconds"][rank] == pytest.approx(sum(last - first for _, first, last in steps) / 1e6, abs=1e-5)
        assert 0 < record["exposed_communication_seconds"][rank] <= record["communication_seconds"][rank]
        assert 0 < record["compute_seconds"][rank] < record["seconds"][rank]
    if options[0] == "--parallel=ddp":
        assert "traced steps 2 to 3: communication" in output and 'href="trace-2-3.json"' in (tmp_path / "report.html").read_text()
    threads = {event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert {"rollcall-train", "rollcall-save"} <= threads
    # A collective is one on all ranks, and none that all give to can end before all have begun it: so the clocks are one.
    threads = [next(event["tid"] for event in events if event["pid"] == rank and event.get("cat") == "step") for rank in (0, 1)]
    ours, theirs = (spans(events, rank, "collective", threads[rank]) for rank in (0, 1))
    assert [name for name, *_ in ours] == [name for name, *_ in theirs]
    assert any(re.fullmatch(r"all-reduce of Double \[\d+\], sum over \w+", name) for name, *_ in ours)
    slack = 1e6 * record["clock_error_seconds"] + 1
    for (name, begin, end), (_, other_begin, other_end) in zip(ours, theirs):
        assert name.startswith("broadcast") or (begin <= other_end + slack and other_begin <= end + slack), name


def test_a_trace_does_not_change_the_training_of_one_rank(tmp_path):
    trainer_ranks.run(tmp_path / "plain", *RUN, "--max-steps=4", ranks=1)
    trainer_ranks.run(tmp_path / "traced", *RUN, "--max-steps=4", "--trace-steps=1-4", ranks=1)
    ours, theirs = (trainer_ranks.checkpoints(tmp_path / name)[-1] for name in ("plain", "traced"))
    assert [name for name in trainer_ranks.differences(ours, theirs) if name.startswith(("model", "optimizer"))] == []
    assert [name for name, *_ in spans(trace(tmp_path / "traced", 1, 4), 0, "step")] == ["1", "2", "3", "4"]
    record = record_of(tmp_path / "traced")
    assert (record["communication_seconds"], record["exposed_communication_seconds"], record["clock_error_seconds"]) == ([0], [0], 0)


def test_a_run_traces_only_its_own_steps_of_the_range(tmp_path):
    trainer_ranks.run(tmp_path, *RUN, "--max-steps=2", "--trace-steps=2-9")
    assert [name for name, *_ in spans(trace(tmp_path, 2, 2), 1, "step")] == ["2"]
    trainer_ranks.run(tmp_path, *RUN, "--max-steps=4", "--trace-steps=2-9")
    assert [name for name, *_ in spans(trace(tmp_path, 3, 4), 1, "step")] == ["3", "4"]
    trainer_ranks.run(tmp_path, *RUN, "--max-steps=6", "--trace-steps=2-4")
    assert sorted(path.name for path in tmp_path.glob("trace-*")) == ["trace-2-2.json", "trace-3-4.json"]


def test_work_between_two_steps_is_not_traced(tmp_path):
    """Validation and other work between two steps is neither traced nor counted; micro-batches are traced separately."""
    trainer_ranks.run(tmp_path, *RUN, "--valid-epochs=1", "--epochs=2", "--grad-accumulation=2", "--trace-steps=3-4")
    events, record = trace(tmp_path, 3, 4), record_of(tmp_path)
    assert len(trainer_ranks.records(tmp_path, "validation")) == 2
    for rank in (0, 1):
        steps = spans(events, rank, "step")
        assert [name for name, *_ in steps] == ["3", "4"]  # of two epochs
        main = next(event["tid"] for event in events if event["pid"] == rank and event.get("cat") == "step")
        for name, begin, end in spans(events, rank, "compute", main):
            assert any(first <= begin and end <= last for _, first, last in steps), name
        assert [name for name, *_ in spans(events, rank, "compute")].count("layer1 backward") == 4
        assert record["compute_seconds"][rank] < record["seconds"][rank] and record["communication_seconds"][rank] < record["seconds"][rank]


@pytest.mark.skipif(subprocess.run(["unshare", "--time", "--monotonic=1000", "--fork", "true"], check=False).returncode != 0,
                    reason="no clock of its own for a process: unshare --time is refused")
def test_the_trace_corrects_clock_offsets_between_ranks(tmp_path):
    processes = trainer_ranks.start(tmp_path, *RUN, "--max-steps=3", "--trace-steps=1-3", "--backend=gloo",
                                    prefixes={1: ["unshare", "--time", "--monotonic=1000", "--fork", "--kill-child"]})
    trainer_ranks.finish(processes)
    events, record = trace(tmp_path, 1, 3), record_of(tmp_path)
    assert 0 < record["clock_error_seconds"] < 0.05
    ours, theirs = (spans(events, rank, "step") for rank in (0, 1))
    for (name, begin, end), (other, other_begin, other_end) in zip(ours, theirs):
        assert name == other and begin < other_end and other_begin < end


def test_an_interrupted_run_ends_without_its_trace(tmp_path):
    processes = trainer_ranks.start(tmp_path, *RUN, "--epochs=1000", "--trace-steps=2-900")
    end = time.monotonic() + 60
    while not (tmp_path / "metrics.jsonl").exists() or not trainer_ranks.records(tmp_path, "step"):
        assert time.monotonic() < end
        time.sleep(0.05)
    processes[0].send_signal(signal.SIGTERM)
    output = trainer_ranks.finish(processes, 75)
    assert re.search(r"rollcall: warning: --trace-steps: the run was interrupted after step \d+, so there is no trace", output), output
    assert list(tmp_path.glob("trace-*")) == []


def test_a_trace_range_without_executed_steps_is_a_warning(tmp_path):
    output = trainer_ranks.run(tmp_path, *RUN, "--max-steps=1", "--trace-steps=7-9")
    assert output.count("rollcall: warning: --trace-steps: 7-9: this run executed none of these steps") == 1, output


@pytest.mark.skipif(subprocess.run(["unshare", "--mount", "mount", "--bind", "/sys/class", "/sys/class"], check=False,
                                   capture_output=True).returncode != 0, reason="mounting over /sys is refused here")
def test_the_energy_of_a_node_is_measured_once(tmp_path):
    """A counter that a thread moves on by a joule every 10 ms, in a mount namespace of each rank."""
    zone = tmp_path / "class" / "powercap" / "intel-rapl:0"
    zone.mkdir(parents=True)
    (zone / "name").write_text("package-0\n")
    (zone / "max_energy_range_uj").write_text("262143328850\n")
    counter, ended = zone / "energy_uj", threading.Event()
    counter.write_text("1000000\n")

    def use():
        joules = 1
        while not ended.wait(0.01):
            joules += 1
            (zone / "new").write_text(f"{joules}000000\n")
            (zone / "new").replace(counter)
    user = threading.Thread(target=use)
    user.start()
    try:
        mount = ["unshare", "--mount", "sh", "-c", f'mount --bind {tmp_path}/class /sys/class && exec "$@"', "sh"]
        processes = trainer_ranks.start(tmp_path / "run", *RUN, "--epochs=1000", "--max-steps=150", "--rank-seconds=1",
                                        prefixes={0: mount, 1: mount})
        trainer_ranks.finish(processes)
    finally:
        ended.set()
        user.join()
    told = [record["energy_joules"] for record in trainer_ranks.records(tmp_path / "run", "ranks") if "energy_joules" in record]
    assert told and all(first > 0 and second is None for first, second in told), told
    begun, = trainer_ranks.records(tmp_path / "run", "begin")
    assert begun["energy_of"] == "processors and memory"


def test_a_trace_that_cannot_be_written_is_a_warning(tmp_path):
    (tmp_path / "trace-1-1.json").mkdir()
    output = trainer_ranks.run(tmp_path, *RUN, "--max-steps=2", "--trace-steps=1")
    assert re.search(r"rollcall: warning: .*trace-1-1\.json: cannot be written: ", output), output
    assert trainer_ranks.records(tmp_path, "trace") == [] and trainer_ranks.checkpoints(tmp_path)[-1].name == "step-00000002.h5"


@pytest.mark.parametrize("given", ["0-3", "5-4", "x", "3-", "-3", "1-1001", "2-3-4", "1.5"])
def test_an_invalid_trace_range_is_rejected(tmp_path, given):
    output = trainer_ranks.run(tmp_path, *RUN, f"--trace-steps={given}", ranks=1, code=64)
    assert f"rollcall: --trace-steps: {given}: is not a range of at most 1000 steps, counted from 1; try --trace-steps=100-104" in output
