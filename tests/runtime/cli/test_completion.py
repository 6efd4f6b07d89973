"""Completion of all programs in real shells, from the scripts in the build folder, which are installed as they are."""
import os
import pathlib
import re
import shutil
import subprocess

import pytest

pytestmark = pytest.mark.python
ROOT = pathlib.Path(os.environ.get("ROLLCALL_SOURCE_DIR", pathlib.Path(__file__).parents[3]))
BUILD = pathlib.Path(os.environ.get("ROLLCALL_BUILD_DIR", ROOT / "build" / "release"))
SCRIPTS = {"bash": BUILD / "share/bash-completion/completions/rollcall", "zsh": BUILD / "share/zsh/site-functions/_rollcall",
           "fish": BUILD / "share/fish/vendor_completions.d/rollcall.fish"}
PROGRAMS = ["rollcall", *re.findall(r"^trainer_program\((rollcall-[a-z-]+)", (ROOT / "trainer/CMakeLists.txt").read_text(), re.M)]

# Each prints the candidates for $LINE, one a line, with what the shell shows of them.
ASK = {
    "bash": r"""
source "$SCRIPT"
read -ra COMP_WORDS <<< "${LINE//=/ = }"
[[ $LINE != *' ' ]] || COMP_WORDS+=('')
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
compopt() { :; }
function=$(complete -p "${COMP_WORDS[0]##*/}")
function=${function##*-F }
"${function%% *}" 2> errors
printf '%s\n' "${COMPREPLY[@]}"
cat errors
""",
    # An interactive zsh on a terminal of its own, in which TAB is pressed after $LINE.
    "zsh": r"""
zmodload zsh/zpty
print -r -- '
fpath=(${SCRIPT:h} $fpath)
autoload -Uz compinit && compinit -u -D
compadd() {
  local -a hits
  builtin compadd -O hits "$@"
  print -rl -- $hits >> found
  [[ -z $argv[(r)-d] ]] || print -rl -- "${(@P)argv[argv[(i)-d]+1]}" >> found
  builtin compadd "$@"
}
comppostfuncs=(tell)
tell() { print "THE END" }
' > setup.zsh
: > found
zpty shell zsh -f -i
zpty -w shell 'source setup.zsh; print THE"" START'
zpty -r shell text '*THE START*'
zpty -w -n shell "$LINE"$'\t'
zpty -r shell text '*THE END*'
zpty -d shell
cat found
""",
    "fish": r"""
source $SCRIPT
complete -C "$LINE"
""",
}


def ask(shell, line, folder, script=None):
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} here: scripts/setup installs it")
    driver = folder / f"ask.{shell}"
    driver.write_text(ASK[shell])
    options = {"bash": ["--norc"], "zsh": ["-f"], "fish": ["--no-config"]}[shell]
    environment = {"PATH": f"{folder}:/usr/bin:/bin", "HOME": str(folder), "LINE": line, "TERM": "xterm", "LC_ALL": "C.UTF-8",
                   "SCRIPT": str(script or SCRIPTS[shell])}
    done = subprocess.run([shell, *options, driver], env=environment, cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and not done.stderr, done.stderr
    return [found for found in done.stdout.splitlines() if found]


def words(found):
    """The candidates alone, which shells show with more: an option's name before, "=" or "/" after, an explanation."""
    return {re.sub(r"^--[a-z-]+=(?=.)", "", line.split("\t")[0]).rstrip("=/") for line in found if "  -- " not in line}


@pytest.mark.parametrize(("line", "expected"), [
    ("rollcall e", {"env", "exec"}),
    ("rollcall env --ex", {"--export"}),
    ("rollcall exec --host-t", {"--host-template"}),
    ("rollcall env --rendezvous=p", {"pmix"}),
    ("rollcall env --rendezvous p", {"pmix"}),
    ("rollcall env --debug=", {"on", "off", "collectives"}),
    ("rollcall help set", {"settings"}),
    ("rollcall completion ", {"bash", "zsh", "fish"}),
    ("rollcall chec", {"checkpoint"}),
    ("rollcall checkpoint pr", {"prune"}),
    ("rollcall checkpoint prune --dr", {"--dry-run"}),
    ("rollcall-checkpoint help ve", {"verify"}),
    ("/usr/bin/rollcall train --host-t", {"--host-template"}),
    ("rollcall-train --backend=gl", {"gloo"}),
    ("rollcall-train --data=im", {"images"}),
    ("rollcall-train --data=fa", {"fake"}),
    ("rollcall nothing --", set()),
])
@pytest.mark.parametrize("shell", SCRIPTS)
def test_commands_options_values_and_files_are_completed(shell, line, expected, tmp_path):
    (tmp_path / "images").mkdir()
    assert words(ask(shell, line, tmp_path)) == expected


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_options_and_commands_are_explained(shell, tmp_path):
    found = "\n".join(ask(shell, "rollcall e", tmp_path) + ask(shell, "rollcall-train --", tmp_path))
    assert "set that environment and become PROGRAM" in found and "Images per rank and micro-batch" in found, found


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("shell", SCRIPTS)
def test_every_program_is_completed(shell, program, tmp_path):
    assert "--version" in words(ask(shell, f"{program} --v", tmp_path))
    if program != "rollcall":
        beside = {"bash": program, "zsh": "_rollcall", "fish": f"{program}.fish"}[shell]  # where the shell looks for this program's
        assert (SCRIPTS[shell].parent / beside).samefile(SCRIPTS[shell])


@pytest.mark.parametrize("shell", SCRIPTS)
def test_no_program_is_started(shell, tmp_path):
    for name in ("rollcall", "rollcall-foo", "rollcall-train"):
        (tmp_path / name).write_text(f"#!/bin/sh\necho {name} >> '{tmp_path}/started'\n")
        (tmp_path / name).chmod(0o755)
    for line in ("rollcall foo --", "rollcall train --", "rollcall-train --data", "rollcall help foo "):
        ask(shell, line, tmp_path)
    assert not (tmp_path / "started").exists()


def rollcall(*arguments, program=BUILD / "runtime/rollcall"):
    done = subprocess.run([program, *arguments], capture_output=True, text=True, env={"HOME": "/"})
    return done.returncode, done.stdout or done.stderr


def test_rollcall_prints_the_script_of_its_installation(tmp_path):
    for shell, script in SCRIPTS.items():
        assert rollcall("completion", shell) == (0, script.read_text())
    for shell in ("bash", "zsh"):  # torchrun's option
        assert rollcall("run", f"--print-completion={shell}") == (0, SCRIPTS[shell].read_text())
    assert rollcall("run", "--print-completion=tcsh") == (
        64, "rollcall: --print-completion: tcsh: is for bash, zsh and fish only; try --print-completion=bash\n")
    assert rollcall("completion", "fish", program=shutil.copy(BUILD / "runtime/rollcall", tmp_path)) == (
        66, "rollcall: completion: fish: there is no share/fish/vendor_completions.d/rollcall.fish; try installing the component launch\n")
