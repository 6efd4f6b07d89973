"""The deliberate breaks of tests/mutations: each still fits the code, and can be built and noticed. scripts/test --mutations tries them."""
import os
import pathlib
import sys

import pytest

ROOT = pathlib.Path(os.environ.get("ROLLCALL_SOURCE_DIR", pathlib.Path(__file__).parents[2]))
sys.path.insert(0, str(ROOT / "tests" / "mutations"))
import entries

MUTATIONS = entries.load(ROOT)
HINT = "moved or renamed code takes its entry along: see tests/mutations/{}.toml"


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_an_entry_fits_the_tree(mutation):
    assert entries.fault(mutation, ROOT) is None, HINT.format(mutation.area)


def test_names_are_unique():
    assert entries.repeated_names(MUTATIONS) == []


def tree(folder):
    """A source tree with one file, one test program and one Python test."""
    for path, text in {
        "CMakeLists.txt": "",
        "runtime/CMakeLists.txt": "rollcall_layer(base base)\nadd_executable(rollcall main.cpp)\n",
        "runtime/base/text.cpp": "return a < b;\nreturn c < d;\n",
        "tests/CMakeLists.txt": "rollcall_test(runtime_test unit/runtime LABELS unit)\n",
        "tests/unit/runtime/text_test.cpp": "TEST(Text, IsCompared) {}\nTEST_P(Word, IsCompared) {}\nTYPED_TEST(Number, IsRead) {}\n",
        "tests/slurm/test_text.py": "def test_text_is_compared():\n    pass\n",
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
    {"test": "runtime_test --gtest_filter=*Compared"}, {"test": "runtime_test --gtest_filter=Nothing.*:Text.*-Text.IsSlow"},
    {"test": "runtime_test --gtest_filter=All/Word.IsCompared/3"}, {"test": "runtime_test --gtest_filter=*Word.*"},
    {"test": "runtime_test --gtest_filter=Number/1.IsRead"},
    {"targets": ("rollcall_base", "rollcall", "runtime_test")},
    {"test": "tests/slurm/test_text.py -k compared"}, {"test": "tests/slurm/test_text.py"},
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
    ({"test": "tests/slurm/test_texts.py"}, "there is no such test"),
    ({"test": "tests/slurm/test_text.py -k 'sorted and fast'"}, "has no test sorted"),
], ids=str)
def test_what_is_wrong_with_an_entry_is_told(tmp_path, changed, expected):
    assert expected in (entries.fault(entry(**changed), tree(tmp_path)) or "")


@pytest.mark.parametrize("text, expected", [
    ("[[mutation]]\nname = 'a'\n", "lacks ['after', 'before', 'file', 'harm', 'target', 'test']"),
    ("[[mutation]]\nname = 'a'\nwhy = 'b'\n", "has unknown ['why']"),
    ("[mutations]\n", "expected [[mutation]] only"),
    ("[[mutation]\n", "launcher.toml: "),
    ("[[mutation]]\nname = 'a'\nharm = ''\nfile = 'f'\nbefore = 'b'\nafter = 'a'\ntarget = 't'\ntest = 't'\n", "not empty"),
], ids=repr)
def test_a_file_that_is_no_file_of_entries_is_told(tmp_path, text, expected):
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
