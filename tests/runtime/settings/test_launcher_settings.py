"""Every setting of the launcher has its documented effect, and no other, from every source. launcher_rows.py defines
which; a setting without a row fails here."""
import functools
import json
import pathlib
import re

import pytest

from launcher_rows import REFUSED, ROWS, ProvedElsewhere, Row
from launcher_runs import PLACES, ROLLCALL, Home, env_json, program_of_the_task, run, run_exec, run_prolog, variable_of

TESTS = pathlib.Path(__file__).parents[2]
HINT = "write a row for tests/runtime/settings/launcher_rows.py that shows what it changes"

pytestmark = [pytest.mark.python, pytest.mark.skipif(not ROLLCALL.exists(), reason=f"{ROLLCALL} is not built")]


@pytest.fixture(scope="module")
def settings_page():
    """The rows of docs/reference/settings.md as the program prints them: name -> (default, accepts)."""
    page = run([ROLLCALL, "--print-settings-markdown"], {}).stdout
    rows = re.findall(r"^\| `([a-z.-]+)` \| (?:`(.*?)`)? \| (.*?) \| ", page, re.M)
    return {name: (default, accepts) for name, default, accepts in rows}


# ---------------------------------------------------------------- the effects


def filled_in(expected, home):
    """Replaces {home} by the folder of this run."""
    if isinstance(expected, re.Pattern):
        return re.compile(expected.pattern.replace("{home}", re.escape(str(home.path))))
    return expected and expected.replace("{home}", str(home.path))


def expectation(row, home, column):
    """One of the two columns of `changes`."""
    return {filled_in(name, home): filled_in(pair[column], home) for name, pair in row.changes.items()}


def misses(expected, seen):
    def fits(text, pattern):
        return pattern.fullmatch(text or "") if isinstance(pattern, re.Pattern) else text == pattern
    wrong = {name for name, pattern in expected.items() if not fits(seen.get(name), pattern)}
    return {name: f"{seen.get(name)!r}, expected {expected[name]!r}" for name in wrong}


def differing(seen, other):
    return {name for name in seen.keys() | other.keys() if seen.get(name) != other.get(name)}


class Observer:
    """Sees what comes of a row's setting. A row's runs have one home, so that its paths are the same in all of them."""

    def __init__(self, folder):
        self.folder = folder
        self.by_default = functools.lru_cache(maxsize=None)(self._by_default)

    def home(self, row):
        return Home(self.folder / str(ROWS.index(row)), row.ages)

    def see(self, row, place, settings, see=None):
        home = self.home(row)
        home.make_anew()
        given = place.give(home, settings)
        others = {variable_of(name): value for name, value in row.given.items()}
        seen = (see or row.see)(home, {**row.step, **others}, given)
        return {name: text for name, text in seen.items() if not row.only or name in row.only}

    def _by_default(self, index):
        row = ROWS[index]
        return self.see(row, PLACES[0], {} if row.instead_of is None else {row.setting: row.instead_of})


@pytest.fixture(scope="module")
def observer(tmp_path_factory):
    return Observer(tmp_path_factory.mktemp("homes"))


HERE = [row for row in ROWS if isinstance(row, Row)]
EVERYWHERE = [pytest.param(row, place, id=f"{row}-{place.name}") for row in HERE for place in row.see.places]


@pytest.mark.parametrize("row, place", EVERYWHERE)
def test_a_setting_has_only_its_documented_effect(observer, row, place):
    program = getattr(row.see, "program", ROLLCALL)
    if not program.exists():
        pytest.skip(f"{program} is not built")
    home = observer.home(row)
    by_default = observer.by_default(ROWS.index(row))
    assert not misses(expectation(row, home, 0), by_default), "without the value"
    changed = observer.see(row, place, {row.setting: row.value})
    assert not misses(expectation(row, home, 1), changed), "with the value"
    named = {filled_in(name, home) for name in row.changes}
    others = differing(by_default, changed) - named
    assert not others, {name: (by_default.get(name), changed.get(name)) for name in others}


@pytest.mark.parametrize("row", [row for row in HERE if row.see is program_of_the_task and not row.only], ids=str)
def test_rollcall_env_shows_what_a_program_gets(observer, row):
    place = PLACES[0]
    program = observer.see(row, place, {row.setting: row.value})
    shown_by_env = observer.see(row, place, {row.setting: row.value}, see=env_json)
    assert {name: program.get(name) for name in differing(program, shown_by_env)} == {
        name: text for name, text in program.items() if name in ("exit code", "standard error") or name.endswith("/")}


# ---------------------------------------------------------------- the order of the places

BY_RANK = [next(place for place in PLACES if place.name == name) for name in ("site-profile", "users-file", "environment", "option")]
VALUES = {row.setting: row.value for row in HERE}


@pytest.mark.parametrize("first, second", list(zip(BY_RANK, BY_RANK[1:])), ids=lambda place: place.name)
def test_a_later_source_overrides_an_earlier_one(tmp_path, settings_page, first, second):
    """Every setting at once: its default, given as a value, over the row's value."""
    home = Home(tmp_path / "home")
    home.make_anew()
    defaults = {name: default for name, (default, _) in settings_page.items()}
    given = [first.give(home, VALUES), second.give(home, defaults)]
    environment = {**home.environment(), **given[0].variables, **given[1].variables}
    done = run([ROLLCALL, *given[0].options, *given[1].options, "--print-config", "--json"], environment)
    printed = {name: entry["value"] for name, entry in json.loads(done.stdout).items() if name != "site"}
    assert printed == defaults


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.name)
@pytest.mark.parametrize("setting, value", [(setting, value) for setting, values in REFUSED.items() for value in values])
def test_a_refused_value_names_the_setting(tmp_path, setting, value, place):
    home = Home(tmp_path / "home")
    home.make_anew()
    given = place.give(home, {setting: value})
    environment = {**home.environment(), **given.variables}
    done, _ = run_exec(environment, given.options) if given.ddp is None else run_prolog(home, environment, given.ddp)
    assert done.returncode == place.refusal, done
    assert done.stderr.startswith(f"rollcall: {place.subject(home, setting)}: "), done.stderr
    assert "; try " in done.stderr and done.stderr.count("\n") == 1, done.stderr


# ---------------------------------------------------------------- the table is complete


def fixed_words(accepts):
    """"job, component"; of "a whole number from 1 to 9, or auto, keep" the words at the end."""
    phrase, _, words = accepts.partition(", or ")
    kinds = ("a text", "a path", "a number", "a whole number", "words separated", "FIRST-LAST", "true or false")
    return words.split(", ") if words else [] if phrase.startswith(kinds) else accepts.split(", ")


def test_every_setting_has_a_row_and_every_row_a_setting(settings_page, tmp_path):
    home = Home(tmp_path / "home")
    home.make_anew()
    printed = json.loads(run([ROLLCALL, "--print-config", "--json"], home.environment()).stdout)
    settings = printed.keys() - {"site"}
    assert settings == settings_page.keys()
    rows, refused = {row.setting for row in ROWS if has_effect(row)}, REFUSED.keys()
    assert not settings - rows, f"no test shows an effect of {sorted(settings - rows)}: {HINT}"
    assert not settings - refused, f"no value of {sorted(settings - refused)} is refused: add one to REFUSED in launcher_rows.py"
    assert not (rows | refused) - settings, f"{sorted((rows | refused) - settings)} are no settings (any more): remove their rows"


def has_effect(row):
    """A row in which nothing changes proves that a setting stays where it belongs, not that it does something."""
    return isinstance(row, ProvedElsewhere) or any(before != after for before, after in row.changes.values())


def test_every_choice_of_a_setting_has_a_row(settings_page):
    shown = {(row.setting, row.value) for row in ROWS if has_effect(row)}
    defaults = {(name, default) for name, (default, _) in settings_page.items()}
    words = {(name, word) for name, (_, accepts) in settings_page.items() for word in fixed_words(accepts)}
    missing = [f"{name}={word}" for name, word in sorted(words - shown - defaults)]
    assert not missing, f"no test shows what {missing} change: {HINT}"


@pytest.mark.parametrize("row", [row for row in ROWS if isinstance(row, ProvedElsewhere)], ids=str)
def test_rows_proved_elsewhere_name_an_existing_test(row):
    file, function = row.test.split("::")
    body = re.search(rf"^((?:@.*\n)*)def {function}\(.*\n((?:    .*\n|\n)*)", (TESTS / file).read_text(), re.M)
    assert body, f"{row.test} is not there (any more): name the test that shows {row} in launcher_rows.py"
    assert row.mention in body[0] and row.value in body[0], f"{row.test} does not speak of {row}"
