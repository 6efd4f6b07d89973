"""The entries of tests/mutations/*.toml: one deliberate break each, and the test that must notice it.

    [[mutation]]
    name = "sampler-skips-the-last-sample"           # unique in all files
    harm = "what a user would suffer, in one sentence"
    file = "trainer/data/sampling/sampler.cpp"
    before = '''text that occurs exactly once in the file'''
    after = '''what it becomes'''
    target = "data_test"                             # what must be built for the test: one target or a list
    test = "data_test --gtest_filter=Sampler.*"      # a program of build/.../tests, or tests/FOLDER/test_x.py -k ...
    survives = "why no test can notice it"           # only where that is so

The file's name is the area. Prefer the narrowest test that is about the broken behaviour: it says what went blind."""
import collections
import dataclasses
import fnmatch
import functools
import pathlib
import re
import shlex
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = pathlib.Path("tests", "mutations")
REQUIRED = {"name", "harm", "file", "before", "after", "target", "test"}
OPTIONAL = {"survives"}
NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
CMAKE_TARGET = re.compile(
    r"^\s*(?:add_executable|add_library|add_custom_target|rollcall_test|test_program|rollcall_spank_plugin|trainer_program)\(([\w-]+)", re.M)
CMAKE_LAYER = re.compile(r"^\s*rollcall_(?:layer|plugin)\((\w+)", re.M)
TEST_PROGRAM = re.compile(r"^\s*rollcall_test\((\w+)((?:\s+[\w/]+)+?)\s+LABELS", re.M)
GOOGLE_TEST = re.compile(r"^(TYPED_TEST|TEST(?:_[FP])?)\(\s*(\w+)\s*,\s*(\w+)\s*\)", re.M)


class Damaged(Exception):
    """A file of entries that cannot be understood."""


@dataclasses.dataclass(frozen=True)
class Mutation:
    area: str
    name: str
    harm: str
    file: str
    before: str
    after: str
    targets: tuple
    test: str
    survives: str

    @property
    def test_words(self):
        return shlex.split(self.test)

    @property
    def is_pytest(self):
        return self.test_words[0].endswith(".py")


def read_entry(area, table):
    name = table.get("name", "an entry without a name")
    missing, unknown = sorted(REQUIRED - table.keys()), sorted(table.keys() - REQUIRED - OPTIONAL)
    if missing or unknown:
        raise Damaged(f"{area}.toml: {name}: lacks {missing}, has unknown {unknown}")
    target = table["target"]
    targets = (target,) if isinstance(target, str) else tuple(target)
    texts = [table[key] for key in ("name", "harm", "file", "before", "after", "test")]
    needed = [*texts[:4], texts[5], *targets]  # a break may leave nothing of what it replaces
    if not all(isinstance(text, str) for text in (*texts, *targets)) or not all(needed) or not targets:
        raise Damaged(f"{area}.toml: {name}: every value but `after` must be a text that is not empty")
    return Mutation(area, *texts[:5], targets, table["test"], table.get("survives", ""))


def load(root=ROOT):
    """All entries, by area and in the order of the files."""
    mutations = []
    for path in sorted((root / FOLDER).glob("*.toml")):
        try:
            content = tomllib.loads(path.read_text())
        except tomllib.TOMLDecodeError as error:
            raise Damaged(f"{path.name}: {error}") from error
        if content.keys() - {"mutation"}:
            raise Damaged(f"{path.name}: holds {sorted(content)}, expected [[mutation]] only")
        mutations += [read_entry(path.stem, table) for table in content.get("mutation", [])]
    return mutations


def chosen(mutations, patterns):
    """Those whose name or area fits one of the patterns (as in a shell); all where there is no pattern."""
    def fits(mutation):
        return any(fnmatch.fnmatchcase(text, pattern) for pattern in patterns for text in (mutation.name, mutation.area))

    return [mutation for mutation in mutations if not patterns or fits(mutation)]


def cmake_lists(root):
    """The texts of all CMakeLists.txt outside build folders."""
    return [(root / "CMakeLists.txt").read_text()] + [
        path.read_text() for folder in ("runtime", "spank_plugin", "trainer", "tests", "benchmarks")
        for path in sorted((root / folder).rglob("CMakeLists.txt"))]


@functools.cache
def known_targets(root):
    text = "\n".join(cmake_lists(root))
    return set(CMAKE_TARGET.findall(text)) | {f"rollcall_{layer}" for layer in CMAKE_LAYER.findall(text)}


@functools.cache
def google_tests(program, root):
    """Names as Google Test prints them, with made-up places of parameterised tests; empty where `program` is no such test."""
    folders = dict(TEST_PROGRAM.findall((root / "tests" / "CMakeLists.txt").read_text()))
    names = set()
    for path in (path for folder in folders.get(program, "").split() for path in (root / "tests" / folder).glob("*_test.cpp")):
        for kind, suite, name in GOOGLE_TEST.findall(path.read_text()):
            names.add({"TEST_P": f"*/{suite}.{name}/*", "TYPED_TEST": f"{suite}/*.{name}"}.get(kind, f"{suite}.{name}"))
    return names


def filter_fits(wanted, names):
    """Whether each part of a --gtest_filter selects one of `names`, which may hold * themselves."""
    return all(any(fnmatch.fnmatchcase(name, pattern) or fnmatch.fnmatchcase(pattern, name) for name in names)
               for pattern in wanted.split("-")[0].split(":"))


def test_fault(mutation, root):
    """What is wrong with the entry's test, or None."""
    program, *options = mutation.test_words
    if mutation.is_pytest:
        if not (root / program).is_file():
            return f"{program}: there is no such test"
        words = [word for word in re.findall(r"\w+", options[options.index("-k") + 1]) if word not in {"and", "or", "not"}] \
            if "-k" in options else []
        # The name of a test, or of a parameter, which may stand in a table beside the test.
        texts = [path.read_text() for path in (root / program).parent.glob("*.py")]
        if words and not any(words[0] in text for text in texts):
            return f"{program}: has no test {words[0]}"
        return None
    if program not in mutation.targets:
        return f"{program}: is not among the targets, so that it would be run as it was before"
    filters = [option.partition("=")[2] for option in options if option.startswith("--gtest_filter=")]
    if filters and not filter_fits(filters[0], google_tests(program, root)):
        return f"{program}: has no test {filters[0]}"
    return None


def fault(mutation, root=ROOT):
    """What keeps this entry from meaning anything, or None."""
    path = root / mutation.file
    if not NAME.fullmatch(mutation.name):
        return "the name is not in kebab case"
    if not path.is_file():
        return f"{mutation.file}: there is no such file"
    count = path.read_text().count(mutation.before)
    if count != 1:
        return f"{mutation.file}: holds `before` {count} times"
    if mutation.before == mutation.after:
        return "`after` is `before`"
    unknown = sorted(set(mutation.targets) - known_targets(root))
    if unknown:
        return f"no CMakeLists.txt makes the target {unknown[0]}"
    return test_fault(mutation, root)


def repeated_names(mutations):
    counts = collections.Counter(mutation.name for mutation in mutations)
    return sorted(name for name, count in counts.items() if count > 1)
