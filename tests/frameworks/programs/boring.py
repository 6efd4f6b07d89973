"""The BoringModel of Lightning, trained by its Trainer. Arguments: FOLDER NODES RANKS_A_NODE."""

import json
import os
import pathlib
import sys

import pytorch_lightning
import torch
from pytorch_lightning.demos.boring_classes import BoringModel

torch.manual_seed(int(os.environ["RANK"]))  # each rank has other weights and other data, until Lightning makes one training of them
trainer = pytorch_lightning.Trainer(
    accelerator="cpu", strategy="ddp", num_nodes=int(sys.argv[2]), devices=int(sys.argv[3]), max_epochs=1, limit_train_batches=8,
    limit_val_batches=1, logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
model = BoringModel()
trainer.fit(model)
answer = {"rank": trainer.global_rank, "world_size": trainer.world_size, "node": trainer.node_rank, "local_rank": trainer.local_rank,
          "steps": trainer.global_step, "found_by": type(trainer.strategy.cluster_environment).__name__,
          "weights": [value for p in model.parameters() for value in p.detach().flatten().tolist()]}
pathlib.Path(sys.argv[1], f"{trainer.global_rank}.json").write_text(json.dumps(answer))
torch.distributed.destroy_process_group()
os._exit(0)  # as leave() in tests/frameworks/programs/regression.py says
