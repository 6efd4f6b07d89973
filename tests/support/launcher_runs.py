"""Runs the launcher with settings given in each place that may hold them, in the step of a task that the test invents."""
import dataclasses
import json
import os
import pathlib
import re
import shutil
import subprocess

BUILD = pathlib.Path(os.environ["ROLLCALL_BUILD_DIR"])
ROLLCALL = BUILD / "runtime" / "rollcall"
TRAINER = BUILD / "trainer" / "rollcall-train"
BENCH_COLLECTIVES = BUILD / "trainer" / "rollcall-bench-collectives"
CLOCK_AHEAD = BUILD / "tests" / "libclock_ahead.so"  # tests/support/clock_ahead.cpp
USAGE, CONFIGURATION = 64, 78  # docs/reference/errors.md


class Home:
    """A user's folders, made anew before each run. `ages`: files in them, which are so many days old."""

    def __init__(self, path, ages=None):
        self.path = path
        self.ages = ages or {}
        self.scratch = path / "scratch"
        self.profile = path / "site.toml"
        self.config = path / "config" / "rollcall" / "config.toml"
        self.prolog = path / "rollcall-task-prolog"
        self.own_folders = {}

    def make_anew(self):
        shutil.rmtree(self.path, ignore_errors=True)
        python = self.path / "venvs" / "torch" / "bin" / "python"
        for folder in (self.scratch, self.config.parent, python.parent):
            folder.mkdir(parents=True)
        self.profile.touch()
        self.config.touch()
        self.prolog.symlink_to(ROLLCALL)
        python.write_text("#!/bin/sh\necho 3.11.2\n")
        python.chmod(0o755)
        for name, days in self.ages.items():
            file = self.path / name
            file.parent.mkdir(exist_ok=True)
            file.touch()
            then = file.stat().st_mtime - days * 86400
            os.utime(file, (then, then))
        self.own_folders = self.folders()

    def folders(self):
        """Their paths, with a slash at the end, and permissions."""
        return {f"{path}/": f"{path.stat().st_mode & 0o777:o}" for path in self.path.rglob("*") if path.is_dir()}

    def environment(self):
        """Of a user with no setting of rollcall's; ROLLCALL_SITE_CONFIG keeps this machine's own profile out."""
        return {"PATH": "/usr/bin:/bin", "USER": "ada", "HOME": str(self.path), "SCRATCH": str(self.scratch),
                "XDG_CONFIG_HOME": str(self.path / "config"), "ROLLCALL_SITE_CONFIG": str(self.profile), "LC_ALL": "C.UTF-8"}


# ---------------------------------------------------------------- the places that hold settings


@dataclasses.dataclass
class Given:
    """Settings on their way into a program."""
    variables: dict = dataclasses.field(default_factory=dict)
    options: list = dataclasses.field(default_factory=list)
    ddp: str = None  # of srun


def variable_of(setting):
    return "ROLLCALL_" + re.sub(r"[.-]", "_", setting).upper()


def option_of(setting):
    return "--" + setting.replace(".", "-")


def toml_of(value):
    """A number is written as one, everything else as a text: their escapes are those of JSON."""
    return value if re.fullmatch(r"\d+(\.\d+)?", value) else json.dumps(value)


def in_environment(home, settings):
    return Given(variables={variable_of(name): value for name, value in settings.items()})


def in_users_file(home, settings):
    home.config.write_text("".join(f"{name.replace('.', '-')} = {toml_of(value)}\n" for name, value in settings.items()))
    return Given()


def in_site_profile(home, settings):
    """By dotted names, but where TOML has no place for both: venv and venv.root."""
    lines = []
    for name, value in settings.items():
        key = name.replace(".", "-") if name.partition(".")[0] in settings else name
        lines.append(f"{key} = {toml_of(value)}\n")
    home.profile.write_text("".join(lines))
    return Given()


def as_options(home, settings):
    return Given(options=[f"{option_of(name)}={value}" for name, value in settings.items()])


def in_ddp(home, settings):
    """No value with a comma but a list, whose commas are written '+'."""
    return Given(ddp=",".join(f"{name}={value.replace(',', '+')}" for name, value in settings.items()))


@dataclasses.dataclass(frozen=True)
class Place:
    name: str
    give: object  # (home, {setting: value}) -> Given
    refusal: int  # exit code where a value is refused
    subject: object  # (home, setting) -> what the refusal names


PLACES = [
    Place("environment", in_environment, USAGE, lambda home, setting: variable_of(setting)),
    Place("users-file", in_users_file, CONFIGURATION, lambda home, setting: f"{home.config}:1: {setting.replace('.', '-')}"),
    Place("site-profile", in_site_profile, CONFIGURATION, lambda home, setting: f"{home.profile}:1: {setting}"),
    Place("option", as_options, USAGE, lambda home, setting: option_of(setting)),
    Place("ddp", in_ddp, USAGE, lambda home, setting: f"--ddp={setting}"),
]
NOT_DDP = [place for place in PLACES if place.name != "ddp"]


# ---------------------------------------------------------------- what is seen of a run


def run(command, environment):
    return subprocess.run(command, env=environment, capture_output=True, text=True, umask=0o022, timeout=60)


def fnv1a(text):
    """32-bit FNV-1a, as docs/reference/environment.md says of ROLLCALL_SET."""
    value = 0x811C9DC5
    for byte in text.encode():
        value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
    return value


def check_marker(before, after):
    """ROLLCALL_SET names every variable that rollcall set, with a hash of its value, but those that it only extends."""
    unmarked = {"PATH", "CUDA_VISIBLE_DEVICES", "ROLLCALL_SET", "ROLLCALL_STEP"}
    ours = {name: value for name, value in after.items() if before.get(name) != value and name not in unmarked}
    marked = dict(entry.split(":") for entry in after["ROLLCALL_SET"].split(","))
    assert {name: int(text, 16) for name, text in marked.items()} == {name: fnv1a(value) for name, value in ours.items()}


def apply_prolog(lines, environment):
    """What slurmstepd makes of a task prolog's output (TaskProlog in slurm.conf(5))."""
    after = dict(environment)
    for line in lines.splitlines():
        word, _, rest = line.partition(" ")
        if word == "export":
            name, _, value = rest.partition("=")
            after[name] = value
        elif word == "unset":
            after.pop(rest, None)
        else:
            raise AssertionError(f"no line of a task prolog: {line}")
    return after


def run_prolog(home, environment, ddp):
    """`srun --ddp=...` of a user's own installation: rollcall as the task prolog, which speaks on its parent's standard error."""
    done = run(["/bin/sh", "-c", f"{home.prolog}; exit $?"], {**environment, "SLURM_ROLLCALL_DDP": ddp})
    return done, apply_prolog(done.stdout, environment)


def run_exec(environment, options):
    done = run([ROLLCALL, "exec", *options, "--", "/usr/bin/env", "-0"], environment)
    after = dict(entry.split("=", 1) for entry in done.stdout.split("\0") if entry) if done.returncode == 0 else {}
    return done, after


def program_of_the_task(home, step, given):
    """The whole environment of a program behind rollcall, with the exit code, what rollcall said, and the folders it made."""
    before = {**home.environment(), **step, **given.variables}
    done, after = run_exec(before, given.options) if given.ddp is None else run_prolog(home, before, given.ddp)
    if done.returncode == 0:
        check_marker(before, after)
    made = {path: mode for path, mode in home.folders().items() if home.own_folders.get(path) != mode}
    own = {"ROLLCALL_SET", *given.variables}
    return {"exit code": str(done.returncode), "standard error": done.stderr, **made,
            **{name: value for name, value in after.items() if name not in own}}


def env_json(home, step, given):
    """The same environment as `rollcall env --json` foretells it."""
    before = {**home.environment(), **step, **given.variables}
    done = run([ROLLCALL, "env", "--json", *given.options], before)
    if done.returncode != 0:
        return {}
    after = dict(before)
    for change in json.loads(done.stdout)["variables"]:
        if change["action"] == "unset":
            after.pop(change["name"], None)
        else:
            assert change["action"] == "set" or before[change["name"]] == change["value"], change
            after[change["name"]] = change["value"]
    own = {"ROLLCALL_SET", *given.variables}
    return {name: value for name, value in after.items() if name not in own}


def in_parallel(commands, environments):
    """What processes that need each other printed, with their exit codes."""
    started = [subprocess.Popen(list(map(str, command)), env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
               for command, environment in zip(commands, environments)]
    return [(*process.communicate(timeout=120), process.returncode) for process in started]


def without_measured(reason):
    return re.sub(r"all-reduce \S+ GB/s per link, \S+ us per hop", "measured", reason)


def doctor_of(steps, checks, *options):
    """The findings of `rollcall doctor` where a task runs in each of `steps`; rank 0's is the first."""

    def observe(home, step, given):
        environments = [{**home.environment(), **step, **task, **given.variables} for task in steps]
        command = [ROLLCALL, "doctor", "--json", f"--only={checks}", *options, *given.options]
        (report, errors, code), *others = in_parallel([command] * len(steps), environments)
        assert all(other == ("", "", 0) for other in others), others
        found = {}
        for finding in json.loads(report)["findings"]:
            text = f"{finding['status']}: {without_measured(finding['reason'])}"
            found[finding["check"]] = f"{found[finding['check']]}\n{text}" if finding["check"] in found else text
        return {"exit code": str(code), "standard error": errors, **found}

    observe.places = NOT_DDP
    return observe


def trainings_of(steps, *options_of_ranks, trainer=TRAINER):
    """What the ranks of rollcall-train, or of another program with its settings, say, and how they met."""

    def observe(home, step, given):
        commands = [[trainer, *own, *given.options] for own in options_of_ranks]
        environments = [{**home.environment(), **step, **task, **given.variables} for task in steps]
        outputs = in_parallel(commands, environments)
        seen = {f"exit code of rank {rank}": str(code) for rank, (_, _, code) in enumerate(outputs)}
        errors = "".join(errors for _, errors, _ in outputs)  # one rank speaks for all
        said = "\n".join(line for line in errors.splitlines() if line.startswith("rollcall: "))
        met = re.search(r"rendezvous (\w+) ", outputs[0][0])
        return {**seen, "said": said, "rendezvous": met and met[1]}

    observe.places = NOT_DDP
    observe.program = trainer
    return observe


program_of_the_task.places = PLACES


def program_behind_exec(home, step, given):
    """The same where `srun --ddp` has no part in it."""
    return program_of_the_task(home, step, given)


program_behind_exec.places = NOT_DDP
