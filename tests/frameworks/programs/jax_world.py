"""A JAX script: jax.distributed.initialize() without arguments, then a sum over all ranks. With "told" behind the folder it says its rank
and their number, which a program must where a task of Slurm's has several ranks: JAX itself asks Slurm.

On CPUs JAX has Gloo listen at the address of the node's own name, and no variable changes that: over() does.
"""

import functools
import json
import os
import pathlib
import sys

import jax
import jax.numpy as jnp
import regression_faults
from jax._src import distributed, xla_bridge
from jax._src.lib import _jax
from jax.experimental import multihost_utils


def over(interface):
    """Collectives of CPUs over this interface. After initialize(), before the first array."""
    gloo = _jax.make_gloo_tcp_collectives(distributed_client=distributed.global_state.client, interface=interface)
    xla_bridge.register_backend_factory("cpu", functools.partial(xla_bridge.make_cpu_client, collectives=gloo), priority=0,
                                        fail_quietly=False)


jax.config.update("jax_platforms", "cpu")
told = {"process_id": "JAX_PROCESS_ID", "num_processes": "JAX_NUM_PROCESSES"} if sys.argv[2:] == ["told"] else {}
jax.distributed.initialize(**{argument: int(os.environ[name]) for argument, name in told.items()})
if "GLOO_SOCKET_IFNAME" in os.environ:
    over(os.environ["GLOO_SOCKET_IFNAME"])
rank, world_size = jax.process_index(), jax.process_count()
regression_faults.die_if_asked(rank)
total = int(multihost_utils.process_allgather(jnp.array([rank + 1])).sum())
pathlib.Path(sys.argv[1], f"{rank}.json").write_text(json.dumps({"rank": rank, "world_size": world_size, "sum": total}))
jax.distributed.shutdown()
