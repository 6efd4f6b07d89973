"""Speeds of trainings as they were measured, and what one is of another's. Pure.

A speed is a dictionary: group (sides that took turns, such as "256-bf16"), side ("rollcall", "python eager"), images_per_second
(of each turn), median, detail. Only what took all turns of its group is compared.
"""
import statistics

# What a step moves for an image at least, with the project's kernels: docs/developer/gpu_check.md, "Goals on hardware".
BYTES_OF_AN_IMAGE = 28.7e-3 * 3.35e12 / 256
# Bytes a second of a GPU's memory, by the name that nvidia-smi has for it; NVIDIA's data sheets.
BANDWIDTHS = {"H200": 4.8e12, "H100 80GB HBM3": 3.35e12, "H100 PCIe": 2.0e12, "A100-SXM4-80GB": 2.039e12, "A100-SXM4-40GB": 1.555e12}
COMPARED = {"x rollcall": "rollcall", "x eager": "python eager", "x compile": "python compile", "x max-autotune": "python max-autotune"}


def speed(group, side, numbers, detail):
    return {"group": group, "side": side, "images_per_second": numbers, "median": statistics.median(numbers), "detail": detail}


def ratio(speeds, group, side, other):
    """By medians; None: not both were measured, in all turns."""
    medians = {one["side"]: one["median"] for one in speeds if one["group"] == group and not has_fewer_turns(one, speeds)}
    return medians[side] / medians[other] if side in medians and other in medians else None


def has_fewer_turns(one, speeds):
    return len(one["images_per_second"]) < most_turns(one["group"], speeds)


def most_turns(group, speeds):
    return max(len(one["images_per_second"]) for one in speeds if one["group"] == group)


def fewer_turns(speeds):
    """A line for each side that has fewer turns than others of its group."""
    return [f"{one['group']}: {one['side']} has {len(one['images_per_second'])} of {most_turns(one['group'], speeds)} turns, and is compared "
            f"with nothing" for one in speeds if has_fewer_turns(one, speeds)]


def share_of_memory(one, gpu):
    """Of the images/s that the GPU's memory allows, by nvidia-smi's line about it; None: its memory's speed is not known."""
    bandwidth = next((bandwidth for name, bandwidth in BANDWIDTHS.items() if name in gpu), None)
    return one["median"] * BYTES_OF_AN_IMAGE / bandwidth if bandwidth else None


def table(speeds, gpu):
    """Each against the others of its turns, and against what the GPU's memory allows."""
    rows = [("turns", "side", "images/s", "least", "most", "runs", *COMPARED, "of memory's", "")]
    for one in speeds:
        numbers, share = one["images_per_second"], share_of_memory(one, gpu)
        ratios = (ratio(speeds, one["group"], one["side"], other) for other in COMPARED.values())
        rows.append((one["group"], one["side"], f"{one['median']:.0f}", f"{min(numbers):.0f}", f"{max(numbers):.0f}", str(len(numbers)),
                     *(f"{of:.2f}" if of else "-" for of in ratios), f"{100 * share:.0f} %" if share else "-", one["detail"]))
    return aligned(rows, left=(0, 1, len(rows[0]) - 1)) if len(rows) > 1 else ""


def aligned(rows, left):
    """Columns with these numbers begin where they begin; the others, numbers, end where they end."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    text = ("  ".join(cell.ljust(width) if i in left else cell.rjust(width) for i, (cell, width) in enumerate(zip(row, widths)))
            for row in rows)
    return "\n".join(line.rstrip() for line in text)
