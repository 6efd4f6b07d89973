"""The mutations of tests/mutations: each still matches the code and names an existing test. scripts/test --mutations runs them."""
import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(os.environ.get("ROLLCALL_SOURCE_DIR", pathlib.Path(__file__).parents[2]))
sys.path.insert(0, str(ROOT / "tests" / "mutations"))
import entries  # noqa: E402  (found by the line above)

pytestmark = pytest.mark.python
MUTATIONS = entries.load(ROOT)
HINT = "moved or renamed code takes its entry along: see tests/mutations/{}.toml"


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_every_mutation_matches_the_source_tree(mutation):
    assert entries.fault(mutation, ROOT) is None, HINT.format(mutation.area)


def test_mutation_names_are_unique():
    assert entries.repeated_names(MUTATIONS) == []


def tree(folder):
    """A source tree with one file, one test program and one Python test."""
    for path, text in {
        "CMakeLists.txt": "",
        "runtime/CMakeLists.txt": "rollcall_layer(base base)\nadd_executable(rollcall main.cpp)\n",
        "runtime/base/text.cpp": "return a < b;\nreturn c < d;\n",
        "tests/CMakeLists.txt": "rollcall_test(runtime_test runtime/base LABELS unit)\n",
        "tests/runtime/base/text_test.cpp": "TEST(Text, IsCompared) {}\nTEST_P(Word, IsCompared) {}\nTYPED_TEST(Number, IsRead) {}\n",
        "tests/runtime/base/test_text.py": "def test_text_is_compared():\n    pass\n",
        "tests/mutations/launcher.toml": "",
    }.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder


def entry(**changed):
    fields = {"area": "launcher", "name": "text-is-compared-the-other-way", "harm": "Words come in the wrong order.",
              "file": "runtime/base/text.cpp", "before": "a < b", "after": "b < a", "targets": ("runtime_test",),
              "test": "runtime_test --gtest_filter=Text.*", "survives": ""}
    return entries.Mutation(**{**fields, **changed})


@pytest.mark.parametrize("changed", [
    {}, {"test": "runtime_test"}, {"test": "runtime_test --gtest_filter=Text.IsCompared"},
    {"test": "runtime_test --gtest_filter=*Compared"}, {"test": "runtime_test --gtest_filter=*Word.*:Text.*-Text.IsSlow"},
    {"test": "runtime_test --gtest_filter=All/Word.IsCompared/3"}, {"test": "runtime_test --gtest_filter=*Word.*"},
    {"test": "runtime_test --gtest_filter=Number/1.IsRead"},
    {"targets": ("rollcall_base", "rollcall", "runtime_test")},
    {"test": "tests/runtime/base/test_text.py -k compared"}, {"test": "tests/runtime/base/test_text.py"},
], ids=str)
def test_a_sound_entry_has_no_fault(tmp_path, changed):
    assert entries.fault(entry(**changed), tree(tmp_path)) is None


@pytest.mark.parametrize("changed, expected", [
    ({"name": "Text_is_compared"}, "kebab case"),
    ({"file": "runtime/base/texts.cpp"}, "there is no such file"),
    ({"before": "a > b"}, "`before` 0 times"),
    ({"before": "return"}, "`before` 2 times"),
    ({"after": "a < b"}, "`after` is `before`"),
    ({"targets": ("runtime_tests",)}, "no CMakeLists.txt makes the target runtime_tests"),
    ({"targets": ("rollcall",)}, "is not among the targets"),
    ({"test": "runtime_test --gtest_filter=Texts.*"}, "has no test Texts.*"),
    ({"test": "runtime_test --gtest_filter=Text.IsRead"}, "has no test Text.IsRead"),
    ({"test": "runtime_test --gtest_filter=Text.*:Word.*"}, "has no test Text.*:Word.*"),
    ({"test": "tests/runtime/base/test_texts.py"}, "there is no such test"),
    ({"test": "tests/runtime/base/test_text.py -k 'sorted and fast'"}, "has no test sorted"),
], ids=str)
def test_a_wrong_entry_is_reported(tmp_path, changed, expected):
    assert expected in (entries.fault(entry(**changed), tree(tmp_path)) or "")


@pytest.mark.parametrize("text, expected", [
    ("[[mutation]]\nname = 'a'\n", "lacks ['after', 'before', 'file', 'harm', 'target', 'test']"),
    ("[[mutation]]\nname = 'a'\nwhy = 'b'\n", "has unknown ['why']"),
    ("[mutations]\n", "expected [[mutation]] only"),
    ("[[mutation]\n", "launcher.toml: "),
    ("[[mutation]]\nname = 'a'\nharm = ''\nfile = 'f'\nbefore = 'b'\nafter = 'a'\ntarget = 't'\ntest = 't'\n", "not empty"),
], ids=repr)
def test_a_malformed_mutation_file_is_reported(tmp_path, text, expected):
    (tree(tmp_path) / "tests" / "mutations" / "launcher.toml").write_text(text)
    with pytest.raises(entries.Damaged) as error:
        entries.load(tmp_path)
    assert expected in str(error.value)


def test_patterns_choose_by_name_and_by_area():
    one, two = entry(), entry(area="data", name="the-last-sample-is-skipped")
    assert entries.chosen([one, two], []) == [one, two]
    assert entries.chosen([one, two], ["data"]) == [two]
    assert entries.chosen([one, two], ["text-*"]) == [one]
    assert entries.chosen([one, two], ["launch*", "the-*"]) == [one, two]


SMALL_PROJECT = {
    "CMakeLists.txt": "cmake_minimum_required(VERSION 3.25)\nproject(small LANGUAGES CXX)\nadd_subdirectory(tests)\n",
    "CMakePresets.json": json.dumps({
        "version": 6, "configurePresets": [{"name": "mutations", "generator": "Ninja", "binaryDir": "${sourceDir}/build/mutations"}],
        "buildPresets": [{"name": "mutations", "configurePreset": "mutations"}]}),
    ".gitignore": "/build/\n",
    "tests/CMakeLists.txt": "function(rollcall_test name folder)\n  add_executable(${name} ${folder}/${name}.cpp)\nendfunction()\n"
                            "rollcall_test(small_test small)\n",
    # What Google Test would print, without it.
    "tests/small/small_test.cpp": "#include <cstdio>\nint twice(int number) { return number * 2; }\nint unused = 1;\n"
                                  "int main() {\n  if (twice(3) != 6) return 1;\n  puts(\"[  PASSED  ] 1 test.\");\n}\n",
}
BREAKS = {  # name: (before, after, survives)
    "noticed-break": ("number * 2", "number * 3", ""),
    "break-that-hangs": ("number * 2", "({ for (;;) { __asm__ volatile(\"\"); } 0; })", ""),
    "break-that-ends-badly": ("number * 2", "*(volatile int*)8", ""),
    "unnoticed-break": ("unused = 1", "unused = 2", ""),
    "break-that-is-argued": ("unused = 1", "unused = 3", "nobody reads it"),
    "argued-and-noticed": ("number * 2", "number", "said wrongly"),
    "break-that-is-no-code": ("number * 2", "number *", ""),
}


def small_project(folder):
    for path, text in SMALL_PROJECT.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    (folder / "tests" / "mutations").mkdir()
    for name in ("entries.py", "run.py", "tree_copy.py"):
        shutil.copy(ROOT / "tests" / "mutations" / name, folder / "tests" / "mutations")
    (folder / "tests" / "mutations" / "small.toml").write_text("".join(
        f"[[mutation]]\nname = '{name}'\nharm = 'none'\nfile = 'tests/small/small_test.cpp'\nbefore = \"\"\"{before}\"\"\"\n"
        f"after = '''{after}'''\ntarget = 'small_test'\ntest = 'small_test'\nsurvives = '{survives}'\n"
        for name, (before, after, survives) in BREAKS.items()))
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    return folder


def run_small(folder, *arguments):
    report = folder / "build" / "report.json"
    done = subprocess.run([sys.executable, "tests/mutations/run.py", "--patience=1", "--json", report, *arguments], cwd=folder,
                          capture_output=True, text=True)
    return done, {row["name"]: row["outcome"] for row in json.loads(report.read_text())["mutations"]}


@pytest.mark.skipif(not all(map(shutil.which, ("cmake", "ninja", "git"))), reason="cmake, ninja or git is not installed")
def test_a_run_reports_each_outcome_and_keeps_the_tree_unchanged(tmp_path):
    folder = small_project(tmp_path)
    source = folder / "tests" / "small" / "small_test.cpp"
    before = (source.read_text(), source.stat().st_mtime_ns)
    done, outcomes = run_small(folder)
    assert outcomes == {
        "noticed-break": "noticed", "break-that-hangs": "timed out", "break-that-ends-badly": "noticed",
        "unnoticed-break": "survived", "break-that-is-argued": "argued", "argued-and-noticed": "noticed",
        "break-that-is-no-code": "does not compile"}, done.stdout + done.stderr
    assert done.returncode == 1
    assert "unnoticed-break: survived" in done.stdout and "argued-and-noticed: is noticed, though" in done.stdout
    assert "4 of 7 breaks were noticed" in done.stdout
    assert (source.read_text(), source.stat().st_mtime_ns) == before
    done, outcomes = run_small(folder, "noticed-*", "*-is-argued")
    assert done.returncode == 0 and outcomes == {"noticed-break": "noticed", "break-that-is-argued": "argued"}, done.stdout
    source.write_text(before[0].replace("!= 6", "!= 7"))
    done, outcomes = run_small(folder, "noticed-break")
    assert done.returncode == 1 and outcomes == {"noticed-break": "fails unbroken"}, done.stdout
