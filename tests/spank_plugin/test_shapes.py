"""Steps of every shape: the ranks of each task, the single endpoint of its world, and `rollcall exec` compared with `srun --ddp`."""

import collections
import json
import re
import shlex

import pytest

from minicluster import Minicluster
from shapes import SHAPES, Launch, by_name

pytestmark = [pytest.mark.slurm, pytest.mark.long]

# What differs between two steps of one shape; ROLLCALL_SITE_CONFIG tells the command what plugstack.conf tells the plugin.
VARYING = re.compile(r"SLURM|SRUN_|SBATCH_|PYTEST_CURRENT_TEST$|ROLLCALL_(STEP|SET|SITE_CONFIG|SECRET_FD)$|_$|SHLVL$")


@pytest.fixture(scope="module")
def nodes(short_folder, plugin):
    """Nodes x0001 to x0004 whose addresses differ though all are this machine: 127.0.0.00x0003 is how 127.0.0.3 may be
    written, so that the site's rule for names makes each node's own address of its name."""
    made = Minicluster(short_folder / "s", f"--plugin={plugin}", "--prefix=x", "--gpus=4").start()
    site = made.folder / "etc" / "site.toml"
    site.write_text(site.read_text().replace('template = "localhost"', 'template = "127.0.0.0{host}"'))
    yield made
    made.stop()


def with_plugin(shape):
    return Launch(options=(f"--ddp={shape.settings}" if shape.settings else "--ddp",))


def with_command(shape, cluster, rollcall):
    settings = [f"--{setting.replace('.', '-')}" for setting in shape.settings.split(",") if setting]
    site = f"ROLLCALL_SITE_CONFIG={cluster.folder}/etc/site.toml"
    return Launch(prefix=("/usr/bin/env", site, str(rollcall), "exec", *settings, "--"))


@pytest.fixture(scope="module")
def by_plugin(nodes):
    """by_plugin(shape): the environments that `srun --ddp` gives, recorded once."""
    known = {}

    def record(shape):
        if shape.name not in known:
            known[shape.name] = recorded(nodes, shape, with_plugin(shape))
        return known[shape.name]
    return record


def recorded(cluster, shape, launch):
    command, read = cluster.recorder()
    shape.start(cluster, launch, command)
    return read()


def worlds_of(environments, shape):
    """The environments of each world, by rank. Several worlds of one step stand in the order of their tasks in it."""
    steps = collections.defaultdict(list)
    for e in environments:
        steps[e["SLURM_JOB_ID"], e["SLURM_STEP_ID"]].append(e)
    if len(steps) > 1:
        return list(steps.values())
    (tasks,) = steps.values()
    worlds = []
    for hosts in shape.worlds:
        worlds.append(tasks[:len(hosts)])
        tasks = tasks[len(hosts):]
    assert tasks == []
    return worlds


def check_world(world):
    """What holds whatever the shape, from nothing but where each task ran."""
    hosts = [e["SLURMD_NODENAME"] for e in world]
    assert [e["RANK"] for e in world] == [str(rank) for rank in range(len(world))]
    assert {e["WORLD_SIZE"] for e in world} == {str(len(world))}
    assert {e["MASTER_ADDR"] for e in world} == {f"127.0.0.0{hosts[0]}"}
    assert len({e["MASTER_PORT"] for e in world}) == 1
    assert 0 < int(world[0]["MASTER_PORT"]) < 65536
    node_of = dict(zip(hosts, (e["NODE_RANK"] for e in world)))
    assert sorted(map(int, node_of.values())) == list(range(len(node_of)))
    assert node_of[hosts[0]] == "0" or "arbitrary" in world[0]["SLURM_DISTRIBUTION"]
    for rank, e in enumerate(world):
        assert e["LOCAL_RANK"] == str(hosts[:rank].count(hosts[rank]))
        assert e["LOCAL_WORLD_SIZE"] == str(hosts.count(hosts[rank]))
        assert e["NODE_RANK"] == e["GROUP_RANK"] == node_of[hosts[rank]]
        assert e["ROLLCALL_STEP"] == f"{e['SLURM_JOB_ID']}.{e['SLURM_STEP_ID']}"


def check(environments, shape):
    worlds = worlds_of(environments, shape)
    for world in worlds:
        check_world(world)
    assert sorted([e["SLURMD_NODENAME"] for e in world] for world in worlds) == sorted(shape.worlds)
    ports = [world[0]["MASTER_PORT"] for world in worlds]
    if len({e["SLURM_JOB_ID"] for e in environments}) == 1:  # the elements of an array may follow one another
        assert len(set(ports)) == len(ports)
    if shape.gpus:
        assert [e["CUDA_VISIBLE_DEVICES"] for e in environments] == shape.gpus
    return worlds


def named(shapes):
    return {"argvalues": shapes, "ids": [shape.name.replace(" ", "-") for shape in shapes]}


@pytest.mark.parametrize("shape", **named(SHAPES))
def test_ranks_and_endpoint_are_correct_for_every_shape(by_plugin, shape):
    check(by_plugin(shape), shape)


def comparable(e):
    """What must be equal. The port is written as its place among those that Slurm reserved; of the marker, which has a
    hash of each value, the names are kept."""
    place = int(e["MASTER_PORT"]) - int(re.match(r"\d+", e["SLURM_STEP_RESV_PORTS"])[0])
    kept = {name: re.sub(rf"\b{e['MASTER_PORT']}$", f"reserved+{place}", value) for name, value in e.items()
            if not VARYING.match(name)}
    return {**kept, "marked": re.sub(r":[0-9a-f]{8}", "", e["ROLLCALL_SET"])}


def differences(one, other):
    names = sorted({*one, *other})
    return {name: (one.get(name), other.get(name)) for name in names if one.get(name) != other.get(name)}


@pytest.mark.parametrize("shape", **named([shape for shape in SHAPES if not shape.plugin_only]))
def test_exec_gives_the_same_environment_as_the_plugin_for_every_shape(nodes, by_plugin, rollcall, shape):
    plugins = worlds_of(by_plugin(shape), shape)
    by_command = check(recorded(nodes, shape, with_command(shape, nodes, rollcall)), shape)
    order = {"key": lambda world: [e["SLURMD_NODENAME"] for e in world]}
    for one, other in zip(sorted(plugins, **order), sorted(by_command, **order)):
        assert len(one) == len(other)
        for a, b in zip(one, other):
            assert differences(comparable(a), comparable(b)) == {}


def test_local_rank_is_the_index_of_a_visible_gpu(by_plugin):
    """Programs call set_device(LOCAL_RANK): with one GPU visible to each task that fails on every second one."""
    own, node = by_name({"a GPU of its own for each task", "all GPUs of the step for each task"})

    def valid(e):
        return int(e["LOCAL_RANK"]) < len(e["CUDA_VISIBLE_DEVICES"].split(","))
    assert not all(valid(e) for e in by_plugin(own))
    assert all(valid(e) for e in by_plugin(node))


# ---------------------------------------------------------------- the doctor


CHECKS = "--no-bench --only=answer,environment,head-name,head-port,ring"
REPORT = '"$0" doctor --json {options} > "$1/$SLURM_JOB_ID.$SLURM_STEP_ID.$SLURM_PROCID"'


@pytest.mark.parametrize("shape", **named(SHAPES))
def test_doctor_checks_the_worlds_of_every_shape(nodes, rollcall, shape):
    """One report for each world, by its rank 0, and nothing wrong in it."""
    launch = with_plugin(shape) if shape.plugin_only else Launch(prefix=with_command(shape, nodes, rollcall).prefix[:2])
    options = CHECKS if shape.plugin_only or not shape.settings else f"{CHECKS} --{shape.settings.replace('.', '-')}"
    folder = nodes.new_folder()
    shape.start(nodes, launch, ["bash", "-c", REPORT.format(options=options), str(rollcall), str(folder)])
    reports = [json.loads(file.read_text()) for file in folder.iterdir() if file.stat().st_size]
    assert [finding for report in reports for finding in report["findings"] if finding["status"] == "bad"] == []
    sizes = sorted((report["step"]["world_size"], report["step"]["num_nodes"]) for report in reports)
    if shape.plugin_only == "world=component":  # what the plugin decided holds, but it does not hand on how many nodes that are
        sizes = [(size, None) for size, _ in sizes]
        assert sizes == sorted((len(world), None) for world in shape.worlds)
    else:
        assert sizes == sorted((len(world), len(set(world))) for world in shape.worlds)


# ---------------------------------------------------------------- where the command cannot know


@pytest.mark.parametrize("shape", **named([s for s in SHAPES if s.plugin_only and s.gpus is None]))
def test_exec_fails_with_one_line_if_only_the_plugin_knows_the_layout(nodes, rollcall, shape):
    """Better no start than a program that waits for half an hour. Rank 0 speaks for all."""
    launch = with_command(shape, nodes, rollcall)
    command, read = nodes.recorder()
    with pytest.raises(AssertionError) as failure:
        shape.start(nodes, launch, command)
    told = [line for line in str(failure.value).splitlines() if line.startswith("rollcall: ")]
    assert len(told) == 1 and shape.plugin_only in told[0] and "srun --ddp" in told[0], failure.value
    assert read() == []


def test_exec_warns_if_it_cannot_make_all_gpus_visible(nodes, rollcall):
    (shape,) = by_name({"all GPUs of the step for each task"})
    launch = with_command(shape, nodes, rollcall)
    result = nodes.run(*launch.srun("-n2", "--gpus-per-task=1")(["printenv", "CUDA_VISIBLE_DEVICES"]))
    assert sorted(result.stdout.split()) == ["0", "1"]
    assert "rollcall: warning: gpus.visible: node:" in result.stderr and "srun --ddp" in result.stderr


@pytest.mark.parametrize("lines", [["x0001", "x0003", "x0003"], ["x0003", "x0001"], ["x[1", "x0001", "x0003"], []],
                         ids=["other order", "too short", "damaged", "empty"])
def test_a_host_file_that_does_not_match_the_step_is_rejected(nodes, rollcall, lines):
    (shape,) = by_name({"arbitrary by node list"})
    file = nodes.new_folder() / "hosts"
    file.write_text("\n".join(lines))
    launch = with_command(shape, nodes, rollcall)
    inner = ["bash", "-c", f"SLURM_HOSTFILE={file} exec {shlex.join([*launch.prefix, 'true'])}"]
    result = nodes.run("srun", "-m", "arbitrary", "-n3", "-w", "x0003,x0001,x0003", *inner, check=False)
    assert result.returncode == 69
    assert [line for line in result.stderr.splitlines() if "rollcall: MASTER_ADDR: " in line] != []


# ---------------------------------------------------------------- one rollcall in another


def test_exec_inside_keeps_the_worlds_of_the_plugin(nodes, rollcall):
    for name in ("a world per component", "a world per component without allocation"):
        (shape,) = by_name({name})
        launch = Launch(with_plugin(shape).options, with_command(shape, nodes, rollcall).prefix)
        launch = Launch(launch.options, tuple(word for word in launch.prefix if word != "--world=component"))
        check(recorded(nodes, shape, launch), shape)


def test_the_world_option_of_exec_overrides_the_plugin(nodes, rollcall):
    (shape,) = by_name({"a world per component"})
    check(recorded(nodes, shape, Launch(("--ddp",), with_command(shape, nodes, rollcall).prefix)), shape)


def test_a_nested_step_is_a_separate_world(nodes):
    record, read = nodes.recorder()
    inner = shlex.join(["srun", "--overlap", "--ddp", "-N2", "-n3", "--ntasks-per-node=2", *record])
    nodes.run("salloc", "-N2", "--ntasks-per-node=2", "srun", "--ddp", "-N1", "-n1", "bash", "-c",
              f"{shlex.join(record)}; {inner}")
    outer, *rest = read()
    check_world([outer])
    check_world(rest)
    assert {e["SLURMD_NODENAME"] for e in rest} == {"x0001", "x0002"}
    assert outer["MASTER_PORT"] != rest[0]["MASTER_PORT"]


def test_exec_over_pmix_supports_arbitrary_distributions(nodes, rollcall):
    """The ranks tell each other where rank 0 is."""
    listed = nodes.run("srun", "--mpi=list")
    if "pmix" not in listed.stdout + listed.stderr:
        pytest.skip("this Slurm has no --mpi=pmix")
    for shape in [shape for shape in SHAPES if shape.plugin_only == "SLURM_HOSTFILE"]:
        check(recorded(nodes, shape, Launch(("--mpi=pmix",), with_command(shape, nodes, rollcall).prefix)), shape)
