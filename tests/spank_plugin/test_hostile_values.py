"""Shell metacharacters are never interpreted: not in variables of the user, in settings, or in the environment of a task."""

import json
import os
import shlex

import pytest

pytestmark = [pytest.mark.slurm, pytest.mark.long]

HOSTILE = ["$(touch {folder}/ran)", "`touch {folder}/ran`", "; touch {folder}/ran;", "\" ; touch {folder}/ran ; \"",
           "' ; touch {folder}/ran ; '", "a\ntouch {folder}/ran\n", "|touch {folder}/ran", "&& touch {folder}/ran",
           "${{IFS}}touch{folder}/ran", "\\$(touch {folder}/ran)", "-e", "--help", "*", "~", "\x1b[31m", "é\u2028"]


@pytest.fixture(params=HOSTILE, ids=lambda text: repr(text)[:24])
def hostile(request, cluster):
    """A value, and a folder in which a file appears if anybody runs it."""
    folder = cluster.new_folder()
    yield request.param.format(folder=folder)
    assert list(folder.iterdir()) == [], "the value was run"


def test_hostile_variables_reach_the_task_unchanged(cluster, rollcall, hostile):
    names = ("MASTER_ADDR", "GLOO_SOCKET_IFNAME", "TORCH_HOME", "PATH_OF_MINE")
    users = dict.fromkeys(names, hostile)
    for front in (["--ddp"], [str(rollcall), "exec", "--"]):
        environments, errors = cluster.environments(*front, env=users)
        assert [environments[0][name] for name in names] == [hostile] * 4
        assert "\x1b" not in errors  # a terminal is not to be steered from a variable


@pytest.mark.parametrize("name", ["ROLLCALL_HOST_TEMPLATE", "ROLLCALL_VENV", "ROLLCALL_INTERFACE_GLOO", "ROLLCALL_CACHE_LOCAL"])
def test_hostile_settings_are_used_as_text_or_rejected_in_one_line(cluster, hostile, name):
    result = cluster.run("srun", "--ddp", "env", "-0", env={name: hostile}, check=False)
    lines = [line for line in result.stderr.splitlines() if "rollcall: " in line]
    if result.returncode != 0:
        assert len(lines) == 1
        assert "\x1b" not in result.stderr
    assert cluster.nodes_in_state("drained", "draining", "down") == []


def test_env_export_quotes_hostile_values(cluster, rollcall, hostile):
    """`eval "$(rollcall env --export)"` is a shell, and the user's: quoting must hold."""
    program = shlex.quote(str(rollcall))
    script = (f'export ROLLCALL_VARIABLES=; eval "$({program} env --export --venv={shlex.quote("/v/" + hostile.strip())} 2> /dev/null)";'
              " exec /usr/bin/python3 -S -c 'import json,os; print(json.dumps(os.environ.get(\"VIRTUAL_ENV\")))'")
    result = cluster.run("srun", "bash", "-c", script, check=False)
    if result.returncode == 0 and result.stdout.strip() != "null":
        assert json.loads(result.stdout) == "/v/" + hostile.strip()


def test_variables_in_paths_are_expanded_only_once(cluster):
    """${NAME} in a path is replaced once: a value that looks like another ${NAME} stays as it is."""
    scratch = cluster.new_folder() / "${HOME}"
    python = scratch / "v" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.touch(0o755)
    environments, _ = cluster.environments("--ddp=venv=${SCRATCH}/v", env={"SCRATCH": str(scratch)})
    assert environments[0]["VIRTUAL_ENV"] == f"{scratch}/v"
    assert os.environ.get("HOME", "/") not in environments[0]["VIRTUAL_ENV"]
