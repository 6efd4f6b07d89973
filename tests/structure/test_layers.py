"""The layer rule of docs/developer/architecture.md, checked from the #include lines."""
import os
import pathlib
import re

import pytest

pytestmark = pytest.mark.python
ROOT = pathlib.Path(os.environ.get("ROLLCALL_SOURCE_DIR", pathlib.Path(__file__).parents[2]))

# layer -> what it may include besides itself
RUNTIME = {
    "contract": [],
    "base": ["contract"],
    "settings": ["base", "contract"],
    "job": ["settings", "base", "contract"],
    "network": ["settings", "base", "contract"],
    "launchers": ["job", "network", "settings", "base", "contract"],
    "resolve": ["job", "network", "settings", "base", "contract"],
    "step": ["launchers", "resolve", "job", "network", "settings", "base", "contract"],
    "storage": ["step", "resolve", "job", "network", "settings", "base", "contract"],
    "hooks": ["storage", "step", "launchers", "resolve", "job", "network", "settings", "base", "contract"],
    "rendezvous": ["step", "launchers", "resolve", "job", "network", "settings", "base", "contract"],
    "store": ["rendezvous", "step", "launchers", "resolve", "job", "network", "settings", "base", "contract"],
    "elastic": ["rendezvous", "step", "launchers", "resolve", "job", "network", "settings", "base", "contract"],
    "doctor": ["install", "storage", "rendezvous", "step", "launchers", "resolve", "job", "network", "settings", "base", "contract"],
    "command_line": ["settings", "base", "contract"],
    "install": ["job", "settings", "base", "contract"],
    "cli": ["install", "command_line", "doctor", "elastic", "hooks", "storage", "rendezvous", "step", "launchers", "resolve", "job", "network",
            "settings", "base", "contract"],
}
# A folder of two parts has its own rule; the rest of its parent has the parent's.
TRAINER = {
    "storage": [],
    "data": [],  # headers that all parts of data share
    "data/sampling": [],
    "data/jpeg": ["data"],
    "data/image": ["data/jpeg", "data"],
    "data/transforms": ["data/image", "data/sampling", "data"],
    "data/sources": ["data", "storage"],
    "data/datasets": ["data/sources", "data/transforms", "data/image", "data/sampling", "data"],
    "data/loader": ["device", "data/datasets", "data/transforms", "data/image", "data/sampling", "data"],
    "metrics": [],
    "metrics/tensorboard": ["metrics", "storage"],
    "report": ["metrics"],
    "model": ["device"],
    "device": [],
    "optim": [],
    "checkpoint/format": ["storage"],
    "checkpoint/interop": ["checkpoint/format", "storage"],
    "checkpoint/background": ["checkpoint/format", "storage"],
    "checkpoint": ["checkpoint/background", "checkpoint/interop", "checkpoint/format", "metrics", "model", "optim", "storage"],
    "distributed/algorithms": [],
    "distributed/processes": [],
    "distributed/errors": [],
    "distributed/backends": ["distributed/algorithms", "distributed/processes", "distributed/errors"],
    "distributed/membership": ["distributed/processes"],
    "distributed/watchdog": ["distributed/membership", "distributed/processes", "distributed/errors"],
    "distributed/process_group": ["device", "distributed/backends", "distributed/watchdog", "distributed/membership",
                                  "distributed/processes", "distributed/errors"],
    "distributed/fsdp": ["distributed/process_group"],
    "distributed/ddp": ["device", "distributed/fsdp", "distributed/process_group", "model"],
    "precision": ["device", "distributed/process_group", "model"],
    "config": ["device", "data/datasets", "data/loader", "data/transforms", "data/sampling", "data", "metrics", "model", "optim", "storage",
               "checkpoint", "checkpoint/background", "checkpoint/format", "distributed/ddp", "precision"],
    "train": ["config", "device", "data/datasets", "data/loader", "data/sampling", "data/sources", "data/transforms", "metrics",
              "metrics/tensorboard", "model", "optim", "checkpoint",
              "checkpoint/background", "checkpoint/format", "distributed/errors", "distributed/membership",
              "distributed/process_group", "distributed/fsdp",
              "distributed/ddp", "precision", "report", "storage",
              "data/image", "distributed/backends"],  # print_only.cpp alone, which says what the build has
    "tools/pack": ["data/sources", "data/image", "data/jpeg", "data", "metrics", "storage"],
    "tools/checkpoint": ["checkpoint/interop", "checkpoint/format", "metrics", "model", "storage"],
    "tools/report": ["report", "metrics"],
    "tools/top": ["report", "metrics"],
    "tools/predict": ["config", "data/datasets", "data/sources", "distributed/process_group", "metrics", "train"],
    "tools/bench_collectives": ["config", "metrics", "distributed/process_group", "train"],
}
INCLUDE = re.compile(r'^\s*#\s*include\s+["<]([^">]+)[">]', re.M)


def sources(folder):
    return [p for p in (ROOT / folder).rglob("*") if p.suffix in {".h", ".cpp", ".cu"}]


def includes(path):
    return INCLUDE.findall(path.read_text())


def layer_of(parts, layers):
    """The layer of a file, given as the parts of its path below its root; None for files of the root itself."""
    folders = parts[:-1]
    return next((name for name in ("/".join(folders[:2]), "/".join(folders[:1])) if name in layers), "/".join(folders) or None)


def violations(folder, layers):
    found = []
    for path in sources(folder):
        layer = layer_of(path.relative_to(ROOT / folder).parts, layers)
        for name in includes(path):
            root, *parts = name.split("/")
            if root != folder or layer is None:
                continue
            target = layer_of(parts, layers)
            if target not in (None, layer) and target not in layers[layer]:
                found.append(f"{path.relative_to(ROOT)} includes {name}")
    return found


def test_every_folder_of_the_runtime_is_a_known_layer():
    folders = {p.name for p in (ROOT / "runtime").iterdir() if p.is_dir()}
    assert folders == set(RUNTIME)


def test_runtime_layers_include_only_lower_layers():
    assert violations("runtime", RUNTIME) == []


def test_trainer_folders_include_only_allowed_folders():
    assert violations("trainer", TRAINER) == []


def test_only_the_entropy_folder_includes_libjpeg_internals():
    """trainer/data/jpeg/entropy_decoder.h is the one way in."""
    folder = "trainer/data/jpeg/entropy/"
    bad = [
        f"{path.relative_to(ROOT)} includes {name}"
        for path in sources("trainer")
        for name in includes(path)
        if (name.startswith(folder) or name == "jpegint.h") and not str(path.relative_to(ROOT)).startswith(folder)
    ]
    assert bad == []


def test_runtime_and_plugin_include_neither_libtorch_nor_the_trainer():
    bad = [
        f"{path.relative_to(ROOT)} includes {name}"
        for folder in ("runtime", "spank_plugin")
        for path in sources(folder)
        for name in includes(path)
        if re.match(r"(torch|ATen|c10|trainer)/", name)
    ]
    assert bad == []


def test_the_plugin_includes_only_the_contract_of_the_runtime():
    allowed = re.compile(r"(spank_plugin|runtime/contract|slurm|sys)/|[a-z_]+(\.h)?$")
    bad = [f"{path.relative_to(ROOT)} includes {name}" for path in sources("spank_plugin") for name in includes(path) if not allowed.match(name)]
    assert bad == []


def test_only_backend_and_cuda_folders_include_backend_libraries():
    """c10d's own backends, UCX, MPI and CUDA."""
    bad = [
        f"{path.relative_to(ROOT)} includes {name}"
        for path in sources("trainer")
        for name in includes(path)
        if re.search(r"ProcessGroup(Gloo|NCCL|MPI|UCC)|^ucp/|^mpi\.h$|cuda|^nccl", name)
        and not path.relative_to(ROOT).as_posix().startswith(("trainer/distributed/backends/", "trainer/device/cuda/"))
    ]
    assert bad == []


def test_network_engines_do_not_include_libtorch():
    """What runs under the sanitizers without LibTorch, and the plugin for MPI."""
    folders = ["algorithms", "processes", "backends/engine", "backends/ucx/engine", "backends/mpi/plugin"]
    bad = [
        f"{path.relative_to(ROOT)} includes {name}"
        for folder in folders
        for path in sources(f"trainer/distributed/{folder}")
        for name in includes(path)
        if re.match(r"(torch|ATen|c10)/", name)
        or re.match(r"trainer/", name) and not any(name.startswith(f"trainer/distributed/{known}/") for known in folders)
    ]
    assert bad == []


LOOK_UP = re.compile(r"\bsettings_?(?:\.|->)(?:text|integer|number|on|list|value|port_range|is_default)\(")


def test_only_the_configuration_looks_up_the_trainers_settings():
    bad = [
        f"{path.relative_to(ROOT)}: {look_up}"
        for path in sources("trainer")
        if path.relative_to(ROOT).parts[1] not in ("config", "tools")
        for look_up in LOOK_UP.findall(path.read_text())
    ]
    assert bad == []


def test_the_layer_check_detects_a_violation(tmp_path, monkeypatch):
    """An include to the right is found: the checks above can fail."""
    (tmp_path / "runtime" / "base").mkdir(parents=True)
    (tmp_path / "runtime" / "base" / "x.h").write_text('#include "runtime/resolve/resolve.h"\n')
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    assert violations("runtime", RUNTIME) == ["runtime/base/x.h includes runtime/resolve/resolve.h"]
