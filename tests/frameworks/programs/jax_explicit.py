"""A JAX script that passes the variables of torchrun to JAX, which detects ranks only under Slurm, Open MPI and on TPUs."""

import json
import os
import pathlib
import sys

import jax
import jax.numpy as jnp
from jax.experimental import multihost_utils

jax.config.update("jax_platforms", "cpu")
jax.distributed.initialize(coordinator_address=f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}",
                           num_processes=int(os.environ["WORLD_SIZE"]), process_id=int(os.environ["RANK"]))
rank = jax.process_index()
total = int(multihost_utils.process_allgather(jnp.array([rank + 1])).sum())
answer = {"rank": rank, "world_size": jax.process_count(), "sum": total, "node": int(os.environ["GROUP_RANK"]),
          "local_rank": int(os.environ["LOCAL_RANK"])}
pathlib.Path(sys.argv[1], f"{rank}.json").write_text(json.dumps(answer))
jax.distributed.shutdown()
