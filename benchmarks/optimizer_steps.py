"""CPU time of a step of each optimizer and of an update of the average of the weights, beside torch's and timm's in Python.

ResNet-50's parameters, one thread, medians in milliseconds; the two sides alternate."""
import json
import statistics
import subprocess
import time

import measure
import timm.optim
import torch
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torchvision.models import resnet50

STEPS = 15
options = measure.parser(__doc__, runs=5).parse_args()
torch.set_num_threads(1)
model = resnet50().to(memory_format=torch.channels_last)
for parameter in model.parameters():
    parameter.grad = torch.randn_like(parameter)
GROUPS = [{"params": [p for p in model.parameters() if p.ndim > 1], "weight_decay": 5e-5},
          {"params": [p for p in model.parameters() if p.ndim <= 1], "weight_decay": 0.0}]
OPTIMIZERS = {"adamw": lambda: torch.optim.AdamW(GROUPS, lr=1e-4), "sgd": lambda: torch.optim.SGD(GROUPS, lr=1e-4, momentum=0.9),
              "rmsprop": lambda: torch.optim.RMSprop(GROUPS, lr=1e-4, momentum=0.9),
              "lars": lambda: timm.optim.Lars(GROUPS, lr=1e-4, momentum=0.9),
              "lamb": lambda: timm.optim.Lamb(GROUPS, lr=1e-4, max_grad_norm=None)}


def milliseconds(work):
    taken = []
    for _ in range(STEPS):
        began = time.process_time()
        work()
        taken.append(1e3 * (time.process_time() - began))
    return statistics.median(taken)


def theirs():
    found = {name: milliseconds(make().step) for name, make in OPTIMIZERS.items()}
    average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.999), use_buffers=True)
    return {**found, "ema": milliseconds(lambda: average.update_parameters(model))}


def ours():
    program = options.build.resolve() / "benchmarks" / "optimizer_steps"
    return json.loads(subprocess.run([program, str(STEPS)], check=True, capture_output=True, text=True).stdout)


rounds = [(ours(), theirs()) for _ in range(options.runs)]
table = {name: [statistics.median(of_side[side][name] for of_side in rounds) for side in (0, 1)] for name in rounds[0][0]}
if options.json:
    print(json.dumps(table))
else:
    print("| a step of | rollcall, ms | Python, ms | ratio |\n|---|---|---|---|")
    for name, (own, other) in table.items():
        print(f"| {name} | {own:.1f} | {other:.1f} | {other / own:.2f} |")
