"""The layer rule of docs/architecture.md, checked from the #include lines."""
import os
import pathlib
import re

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
    "rendezvous": ["step", "launchers", "resolve", "job", "network", "settings", "base", "contract"],
    "doctor": ["install", "storage", "rendezvous", "step", "launchers", "resolve", "job", "network", "settings", "base", "contract"],
    "command_line": ["settings", "base", "contract"],
    "install": ["job", "settings", "base", "contract"],
    "cli": ["install", "command_line", "doctor", "storage", "rendezvous", "step", "launchers", "resolve", "job", "network", "settings", "base",
            "contract"],
}
TRAINER = {
    "config": [],
    "storage": [],
    "data": ["storage"],
    "metrics": [],
    "model": [],
    "optim": [],
    "checkpoint": ["metrics", "model", "storage"],
    "checkpoint_tool": ["checkpoint", "metrics", "storage"],
    "pack": ["data", "metrics", "storage"],
    "process_group": [],
    "precision": ["process_group"],
    "parallel": ["process_group", "model"],
    "bench_collectives": ["config", "metrics", "process_group", "train"],
    "train": ["config", "data", "metrics", "model", "optim", "checkpoint", "process_group", "precision", "parallel"],
}
INCLUDE = re.compile(r'^\s*#\s*include\s+["<]([^">]+)[">]', re.M)


def sources(folder):
    return [p for p in (ROOT / folder).rglob("*") if p.suffix in {".h", ".cpp"}]


def includes(path):
    return INCLUDE.findall(path.read_text())


def violations(folder, layers):
    found = []
    for path in sources(folder):
        parts = path.relative_to(ROOT / folder).parts
        layer = parts[0] if len(parts) > 1 else None
        for name in includes(path):
            target = name.split("/")
            if target[0] != folder or layer is None:
                continue
            if target[1] != layer and len(target) > 2 and target[1] not in layers[layer]:
                found.append(f"{path.relative_to(ROOT)} includes {name}")
    return found


def test_every_folder_of_the_runtime_is_a_known_layer():
    folders = {p.name for p in (ROOT / "runtime").iterdir() if p.is_dir()}
    assert folders == set(RUNTIME)


def test_runtime_includes_point_to_the_left_only():
    assert violations("runtime", RUNTIME) == []


def test_trainer_includes_follow_the_map():
    assert violations("trainer", TRAINER) == []


def test_runtime_and_plugin_include_neither_libtorch_nor_the_trainer():
    bad = [
        f"{path.relative_to(ROOT)} includes {name}"
        for folder in ("runtime", "spank_plugin")
        for path in sources(folder)
        for name in includes(path)
        if re.match(r"(torch|ATen|c10|trainer)/", name)
    ]
    assert bad == []


def test_only_the_process_group_names_a_back_end():
    bad = [
        f"{path.relative_to(ROOT)} includes {name}"
        for path in sources("trainer")
        for name in includes(path)
        if re.search(r"ProcessGroup(Gloo|NCCL|MPI|UCC)", name) and "process_group" not in path.parts
    ]
    assert bad == []


def test_the_rule_itself_is_sharp(tmp_path, monkeypatch):
    """An include to the right is found: the checks above can fail."""
    (tmp_path / "runtime" / "base").mkdir(parents=True)
    (tmp_path / "runtime" / "base" / "x.h").write_text('#include "runtime/resolve/resolve.h"\n')
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    assert violations("runtime", RUNTIME) == ["runtime/base/x.h includes runtime/resolve/resolve.h"]
