"""Under an NVIDIA profiler the spans of a trace are NVTX ranges: checked by a tool injected into NVTX, on CPUs."""
import json

import pytest

import trainer_ranks
from trainer_ranks import BUILD

pytestmark = [pytest.mark.python, pytest.mark.long]

RECORDER, MARKS = BUILD / "tests" / "libnvtx_recorder.so", BUILD / "tests" / "libmark_nvtx_ranges.so"
TRAINING = (*trainer_ranks.SMALL, "--data=fake", "--fake-size=64", "--valid-epochs=0", "--checkpoint-epochs=0", "--train-num-workers=1",
            "--parallel=ddp", "--max-steps=3", "--trace-steps=2-3")


def nested(lines):
    """Names of ranges that are pushed and popped by one thread; all are popped at the end."""
    names, open_ranges = [], {}
    for kind, thread, *name in lines:
        if kind == "push":
            open_ranges.setdefault(thread, []).append(name)
            names += name
        elif kind == "pop":
            open_ranges[thread].pop()
    assert not any(open_ranges.values())
    return names


def overlapping(lines):
    """Names of those that have a beginning and an end."""
    begun = {number: name[0] for kind, number, *name in lines if kind == "start"}
    ended = [number for kind, number, *_ in lines if kind == "end"]
    assert sorted(begun) == sorted(ended)
    return list(begun.values())


def of_trace(folder, rank, phase):
    """Spans of the steps that were traced, by their category and name, but for those that are put together of several afterwards."""
    events = json.loads((folder / "trace-2-3.json").read_text())["traceEvents"]
    return {f"{event['cat']}: {event['name']}" for event in events if event["pid"] == rank and event["ph"] == phase
            and event["cat"] != "step" and not event["name"].endswith("backward")}


def test_spans_collectives_and_autograd_nodes_are_nvtx_ranges(tmp_path):
    if not (RECORDER.exists() and MARKS.exists()):
        pytest.skip("built where NVTX's headers are")
    trainer_ranks.run(tmp_path, *TRAINING, env={"LD_PRELOAD": MARKS, "NVTX_INJECTION64_PATH": RECORDER, "NVTX_RECORDED": tmp_path / "ranges"})
    for rank in (0, 1):
        lines = [line.split(" ", 2) for line in (tmp_path / f"ranges.{rank}").read_text().splitlines()]
        names, collectives = nested(lines), overlapping(lines)
        spans, exchanged = of_trace(tmp_path, rank, "X"), of_trace(tmp_path, rank, "b")
        assert {"compute: stem", "compute: loss", "compute: optimizer"} <= spans <= set(names)
        assert exchanged and exchanged <= set(collectives)
        assert names.count("compute: optimizer") == 3  # of all steps, not only those that are traced
        assert any(name.startswith("ConvolutionBackward0") for name in names)
