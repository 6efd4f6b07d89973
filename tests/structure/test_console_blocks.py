"""The pages' blocks that show output show what the programs print.

A page with such blocks is run from top to bottom, in one shell, in a folder of its own that looks like the repository. The label of a
block says what it is:

    sh     what the reader types: run
    text   what the `sh` block before it printed. Each line is a line of the output. A part "..." stands for anything, and so do a
           number with a decimal point, with a unit or of five or more digits, a date, and a checksum of eight digits
    bash   and every other label: neither run nor compared

HTML comments, which no reader sees, add what a page does not say:

    <!-- run: COMMANDS -->      before the next block: run as well; what it prints counts for `text`
    <!-- file: NAME -->         before a block: it is written to this file
    <!-- not run: REASON -->    before a `text` block: it is not compared, for one of REASONS, or "shown by TEST", which asserts it
"""
import dataclasses
import os
import pathlib
import re
import shutil
import subprocess

import pytest

from common_fixtures import BUILD
from minicluster import SOURCE, clean_environment

pytestmark = pytest.mark.slurm
PAGES = sorted([SOURCE / "README.md", *(SOURCE / "docs").rglob("*.md")])
LABELS = {"sh", "text", "bash", "python", "toml", "none"}
CHANGES = "needs root, and changes this machine"
REASONS = {
    "needs GPUs",
    CHANGES,
    "needs Lightning or py-spy, which scripts/setup does not install",
    "depends on the processor",
}
MOST_NOT_RUN = 22
OF_THEIR_OWN = {"tutorials/first_job.md", "tutorials/from_torchrun.md", "tutorials/a_hang.md", "tutorials/imagenet.md"}  # take minutes
PART = re.compile(r"<!-- (?P<word>run|file|not run):\s(?P<value>.*?)-->|^(?P<indent> *)```(?P<label>\w*)\n(?P<body>.*?)^ *```$", re.M | re.S)
ANYTHING = re.compile(r"(\.{3,}|={5,})|\d{4}-\d\d-\d\dT[\d:]+Z?|\b[0-9a-f]{8}\b|\d+\.\d+(?:e-?\d+)?|\d{5,}|"
                      r"\d+(?= (?:%|(?:us|ms|s|min|img/s|B|kB|KiB|MB|MiB|GiB)\b))")


@dataclasses.dataclass
class Part:
    """A block of a page, or a comment that is run ("run")."""
    label: str
    body: str
    line: int
    reason: str = ""  # why it is not compared
    file: str = ""


def parts_of(page):
    text = page.read_text()
    comments = {}
    for found in PART.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        if found["word"] == "run":
            yield Part("run", found["value"], line)
        elif found["word"]:
            comments[found["word"]] = found["value"].strip()
        else:
            body = re.sub(rf"^{found['indent']}", "", found["body"], flags=re.M)
            yield Part(found["label"], body, line, comments.pop("not run", ""), comments.pop("file", ""))
    assert not comments, f"{page}: {comments} stands before no block"


ALL = {str(page.relative_to(SOURCE)).removeprefix("docs/"): list(parts_of(page)) for page in PAGES}
RUN = [name for name, parts in ALL.items() if any(part.label == "text" and not part.reason for part in parts)]


def test_every_block_has_a_known_label():
    assert [(name, part.line) for name, parts in ALL.items() for part in parts if part.label not in LABELS | {"run"}] == []


def test_unchecked_output_blocks_are_few_and_give_a_reason():
    not_run = [(name, part.line, part.reason) for name, parts in ALL.items() for part in parts if part.reason]
    assert [each for each in not_run if each[2] not in REASONS and not (each[2][:9] == "shown by " and (SOURCE / each[2][9:]).exists())] == []
    assert len(not_run) <= MOST_NOT_RUN, not_run


def test_no_page_that_changes_this_machine_is_run():
    assert [name for name in RUN if any(part.reason == CHANGES and part.label == "text" for part in ALL[name])] == []


def pattern_of(line):
    """A regular expression for one line of a `text` block."""
    parts, end = [], 0
    for found in ANYTHING.finditer(line):
        parts += [re.escape(line[end:found.start()]), ".*" if found[1] else r"[\w.:+-]+"]
        end = found.end()
    return re.sub(r"(?:\\ )+", r" +", "".join(parts) + re.escape(line[end:]))


def missing_lines(expected, output):
    printed = [re.sub(r"  \[\d{4}-[^]]*\]$", "", line.strip()) for line in output.splitlines()]  # rollcall-train's, but for the time
    return [line for line in map(str.strip, expected.splitlines()) if not any(re.fullmatch(pattern_of(line), each) for each in printed)]


@pytest.mark.parametrize("expected, output, lacks", [
    ("a  b", "x\na   b\n", []), ("a", "ab", ["a"]), ("b\na", "a\nb", []), ("a\n...\nz", "a\nz", []),
    ("...x at /.../y", "it is x at /tmp/y", []), ("2 ranks in 2.5 s", "2 ranks in 13 s", []), ("2 ranks", "3 ranks", ["2 ranks"]),
    ("33 %, 2 kB", "7 %, 14 kB", []),
    ("port 10101, step-00000012.h5", "port 29999, step-00000007.h5", []), ("(a*b)", "(a*b)", []),
    ("[##....] 3.4 %", "[#.....] 9.9 %", ["[##....] 3.4 %"])])
def test_lines_are_compared_except_for_variable_parts(expected, output, lacks):
    assert missing_lines(expected, output) == lacks


@pytest.fixture
def desk(tmp_path, cluster):
    """A folder that looks like the repository, and the environment, in which blocks are run."""
    shutil.copytree(SOURCE / "docs", tmp_path / "docs")
    for name in ("scripts", "sbatch_templates", "site_config", "benchmarks"):
        (tmp_path / name).symlink_to(SOURCE / name)
    (tmp_path / "build").mkdir()
    (tmp_path / "build" / "release").symlink_to(BUILD)
    (tmp_path / "scratch").mkdir()
    environment = {**clean_environment(), "SLURM_CONF": str(cluster.folder / "etc" / "slurm.conf"), "TMPDIR": str(cluster.new_folder()),
                   "PATH": f"{BUILD}/runtime:{BUILD}/trainer:{os.environ['PATH']}", "SCRATCH": str(tmp_path / "scratch"),
                   "LC_ALL": "C.UTF-8", "OMP_NUM_THREADS": "1"}
    yield tmp_path, environment
    for kind in ("minicluster", "netcluster"):  # of a page that began one and was given up
        if pathlib.Path(environment["TMPDIR"], f"rollcall-{kind}").exists():
            subprocess.run([SOURCE / "scripts" / kind, "stop"], env=environment, check=True, capture_output=True)


def run_page(parts, folder, environment):
    """What each part printed; standard error is part of it."""
    mark = "---- part {} ----"
    script = []
    for number, part in enumerate(parts):
        if part.file:
            script.append(f"cat > {part.file} << 'END OF FILE'\n{part.body}END OF FILE\n")
        script.append(f"echo; echo '{mark.format(number)}'\n" + (part.body if part.label in ("run", "sh") else ""))
    done = subprocess.run(["bash", "-c", "\n".join(script)], cwd=folder, env=environment, text=True, timeout=900, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    printed = re.split(r"^" + mark.format(r"\d+") + "$", done.stdout, flags=re.M)[1:]
    return printed + [""] * (len(parts) - len(printed))


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.long if name in OF_THEIR_OWN else []) for name in RUN])
def test_pages_show_the_output_of_their_commands(name, desk, request):
    if any("netcluster" in part.body for part in ALL[name]):
        request.getfixturevalue("network")  # skips where hosts of their own cannot be made
    wrong, output = [], ""
    for part, printed in zip(ALL[name], run_page(ALL[name], *desk)):
        output = printed if part.label == "sh" else output + printed
        if part.label == "text" and not part.reason:
            wrong += [f"{name}:{part.line}: {line}\nis not in\n{output}" for line in missing_lines(part.body, output)]
    if wrong:
        pytest.fail("\n\n".join(wrong), pytrace=False)
