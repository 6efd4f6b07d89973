"""A JAX script: jax.distributed.initialize() without arguments. Collectives are left out: they are not the launcher's."""

import json
import pathlib
import sys

import jax

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_cpu_collectives_implementation", None)
jax.distributed.initialize()
rank, world_size = jax.process_index(), jax.process_count()
pathlib.Path(sys.argv[1], f"{rank}.json").write_text(json.dumps({"rank": rank, "world_size": world_size}))
jax.distributed.shutdown()
