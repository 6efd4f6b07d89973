"""--help, `rollcall help` and the manual pages of every program, against the tables of options in the sources."""
import functools
import os
import pathlib
import re
import subprocess

import pytest

pytestmark = pytest.mark.python
ROOT = pathlib.Path(os.environ.get("ROLLCALL_SOURCE_DIR", pathlib.Path(__file__).parents[2]))
BUILD = pathlib.Path(os.environ.get("ROLLCALL_BUILD_DIR", ROOT / "build" / "release"))
HINT = "regenerate it: scripts/update-pages"
MOST_LINES = 60
# The files with the table of options of each program or command that has one.
TABLES = {
    "rollcall doctor": "runtime/cli/doctor_command.cpp", "rollcall install": "runtime/cli/install_command.cpp",
    "rollcall run": "runtime/elastic/options.cpp", "rollcall help settings": "runtime/settings/launch_settings.cpp",
    "rollcall-train": "trainer/config/*_settings.cpp", "rollcall-pack": "trainer/tools/pack/program.cpp",
    "rollcall-report": "trainer/tools/report/main.cpp", "rollcall-top": "trainer/tools/top/main.cpp",
    "rollcall-predict": "trainer/tools/predict/main.cpp",
    "rollcall-bench-collectives": "trainer/tools/bench_collectives/main.cpp",
    **{f"rollcall-checkpoint {name}": f"trainer/tools/checkpoint/{name}_command.cpp"
       for name in ("verify", "export", "import", "prune")},
}
PROGRAMS = ["rollcall", *re.findall(r"^trainer_program\((rollcall-[a-z-]+)", (ROOT / "trainer" / "CMakeLists.txt").read_text(), re.M)]


def folder_of(program):
    return BUILD / ("runtime" if program == "rollcall" else "trainer")


@functools.cache
def run(*words, code=0):
    program = folder_of(words[0]) / words[0]
    if not program.exists():
        pytest.skip(f"{program} is not built")
    clean = {name: value for name, value in os.environ.items() if not name.startswith("ROLLCALL_")}
    clean["PATH"] = f"{folder_of('rollcall-train')}:{clean['PATH']}"
    done = subprocess.run([program, *words[1:]], capture_output=True, text=True, env=clean)
    assert done.returncode == code, done.stderr
    return done.stderr if code else done.stdout


def options_in(text):
    """The options that lines of a help begin with, as often as they do."""
    return re.findall(r"^  (?:-\w, )?(--[a-z][a-z-]*)", text, re.MULTILINE)


def names_in(table):
    files = sorted(ROOT.glob(table))
    assert files, table
    text = "".join(file.read_text() for file in files).replace("kTaskTimeout", '"task.timeout"')
    return ["--" + name.replace(".", "-") for name in re.findall(r'Setting\{\s*"([a-z.-]+)"', text)]


def commands_of(program):
    commands = re.search(r"^Commands:\n((?:  .*\n)+)", run(program, "--help"), re.MULTILINE)
    names = re.findall(r"^  ([a-z]+) ", commands[1], re.MULTILINE) if commands else []
    return [name for name in names if name != "help"]


def pages_of(program):
    """The command lines that have a help of their own."""
    return [[program], *([program, command] for command in commands_of(program))]


def manual_page(program):
    text = (ROOT / "docs" / "man" / f"{program}.1").read_text()
    options = re.search(r'\.SH OPTIONS\n\.\\" [^\n]*\n(.*?)(?=^\.SH )', text, re.MULTILINE | re.DOTALL)
    assert options, f"{program}.1 has no generated section OPTIONS; {HINT}"
    return options[1]


@pytest.mark.parametrize("program", PROGRAMS)
def test_short_help_fits_the_limit_and_names_the_full_help(program):
    for page in pages_of(program):
        text = run(*page, "--help")
        assert len(text.splitlines()) <= MOST_LINES, page
        assert re.search(r"^usage: " + " ".join(page), text, re.M) and "Usage:" not in text
        if len(options_in(run(*page, "--help=all"))) > len(options_in(text)):
            assert "--help[=all|" in text, page


@pytest.mark.parametrize("page", TABLES)
def test_every_option_is_in_the_full_help_and_the_manual_page(page):
    words = page.split()
    text = run(*words, "all") if words[1:2] == ["help"] else run(*words, "--help=all")
    shown = options_in(text)
    names = names_in(TABLES[page])
    assert names
    assert {name: shown.count(name) for name in names} == dict.fromkeys(names, 1)
    manual = manual_page(words[0])
    assert [name for name in names if f"\\fB{name}\\fR".replace("-", r"\-") not in manual] == []


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_manual_page_is_what_the_program_prints(program):
    assert manual_page(program) == run(program, "--help=roff"), HINT


def test_the_table_for_completion_is_what_the_programs_print():
    table = (ROOT / "runtime/cli/completion/options.txt").read_text()
    for program in PROGRAMS:
        rows = re.findall(rf"^{program}[ |].*\n", table, re.MULTILINE)
        if program == "rollcall":
            rows += re.findall(r"^Launch settings\|.*\n", table, re.MULTILINE)
        assert "".join(rows) == run(program, "--help=completion"), HINT


def test_manual_pages_have_the_version_and_date_of_the_release():
    text = (ROOT / "CMakeLists.txt").read_text()
    version = re.search(r"project\(rollcall VERSION ([0-9.]+)", text)[1]
    date = re.search(r"set\(ROLLCALL_RELEASE_DATE ([0-9-]+)\)", text)[1]
    pages = sorted((ROOT / "docs" / "man").glob("*.[18]"))
    assert {page.stem for page in pages} == {*PROGRAMS, "rollcall-spank"}
    for page in pages:
        section = page.suffix[1:]
        first = page.read_text().splitlines()[0]
        assert first.startswith(f'.TH {page.stem.upper()} {section} {date} "rollcall {version}" "'), f"{page.name}; {HINT}"


def test_the_help_of_rollcall_names_every_program_and_command():
    text = run("rollcall", "--help")
    programs = re.search(r"^Programs .*:\n((?:  .*\n)+)", text, re.MULTILINE)[1]
    assert sorted(f"rollcall-{line.split()[0]}" for line in programs.splitlines()) == sorted(PROGRAMS[1:])
    assert all(len(line.split()) > 2 for line in programs.splitlines())


@pytest.mark.parametrize("program", PROGRAMS)
def test_rollcall_help_explains_every_name(program):
    for page in pages_of(program):
        if page[0] == "rollcall":
            assert run("rollcall", "help", *page[1:]) == run(*page, "--help")
        else:
            assert run("rollcall", "help", page[0].removeprefix("rollcall-"), *page[1:]) == run(*page, "--help")


def test_only_help_settings_lists_launch_settings():
    launch = names_in(TABLES["rollcall help settings"])
    assert set(launch) <= set(options_in(run("rollcall", "help", "settings")))
    for program in PROGRAMS:
        for page in pages_of(program):
            own = [] if page == ["rollcall"] else options_in(run(*page, "--help=all"))
            assert set(launch) & set(own) == set(), page
    for page in (["rollcall", "exec"], ["rollcall-train"], ["rollcall-bench-collectives"]):
        assert "rollcall help settings" in run(*page, "--help")


@pytest.mark.parametrize("program", PROGRAMS)
def test_help_prints_one_group_and_refuses_an_unknown_group(program):
    for page in pages_of(program):
        whole = run(*page, "--help=all")
        named = re.search(r"--help\[=all\|([^]]+)\]", whole)
        topics = named[1].split("|") if named else []
        for topic in topics:
            part = run(*page, f"--help={topic}")
            assert part and set(options_in(part)) <= set(options_in(whole))
        refused = run(*page, "--help=nothing", code=64)
        assert refused.startswith("rollcall: --help: nothing: is not a group of options; try --help")
        assert all(topic in refused for topic in topics)


def exit_codes_of_manual_page(program):
    text = (ROOT / "docs" / "man" / f"{program}.1").read_text()
    section = re.search(r"^\.SH EXIT STATUS\n(.*?)(?=^\.(?:SH|PP))", text, re.MULTILINE | re.DOTALL)[1]
    entries = re.findall(r'^\.TP\n\.B "?([\d, ]+)"?\n(.*?)(?=^\.TP|\Z)', section, re.MULTILINE | re.DOTALL)
    plain = [(codes, re.sub(r"^\.BR? ", "", words, flags=re.MULTILINE).replace("\\-", "-")) for codes, words in entries]
    return {codes: " ".join(words.split()) for codes, words in plain}


@pytest.mark.parametrize("program", [program for program in PROGRAMS if program not in ("rollcall", "rollcall-train")])
def test_exit_codes_have_the_same_words_in_help_and_manual_page(program):
    listed = " ".join(re.search(r"^Exit codes: (.*?)\.$", run(program, "--help"), re.MULTILINE | re.DOTALL)[1].split())
    assert dict(re.match(r"(\d+(?:, \d+)*) (.*)", entry).groups() for entry in listed.split("; ")) == exit_codes_of_manual_page(program)


def test_exit_codes_of_rollcall_have_the_words_of_the_page_of_errors():
    page = (ROOT / "docs" / "reference" / "errors.md").read_text()
    rows = dict(reversed(re.findall(r"^\| ([\d, ]+) \| ([^|]*) \|", page, re.MULTILINE)))  # the first row of a code counts
    own = exit_codes_of_manual_page("rollcall")
    assert len(own) > 8
    for codes, words in own.items():
        assert rows[codes].replace("`", "").startswith(re.split(r"[:.]", words)[0]) or codes == "126, 127", codes
    for program in PROGRAMS[1:]:
        for codes in exit_codes_of_manual_page(program):
            assert all(code in rows for code in codes.split(", ")), (program, codes)
