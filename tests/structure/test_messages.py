"""Each message says in plain words what is wrong and, after "try", what to do (tests/structure/messages.py lists them)."""
import pathlib
import re
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import messages  # noqa: E402

pytestmark = pytest.mark.python
DIALECT = re.compile(r"\b((?<!there )is no (?!longer\b)|(stands?|stood) still\b|(tells?|told|hears?|heard)\b|(goes|go|went) on\b|somebody\b)")
NOUNS = """batches characters checkpoints classes CPUs days devices elements endpoints epochs files generations GPUs images keys lines names
    nodes pictures ranks restarts runs starts steps tasks tensors threads times validations values workers""".split()
# A number and a noun for which counted() is needed, unless the phrase implies several: "of {} ranks", "all {} nodes".
COUNT = re.compile(r"(?<!of )(?<!its )(?<!all )(?<!than )(?<!least )(?<!to )(\{\d?\}|%[lzu]*[du]) (?:[a-z-]+ )?"
                   rf"({'|'.join(NOUNS)})\b(?! \{{|/)")
# Numbers that are never 1.
SEVERAL = {
    ", {} starts", "{} GPUs, and NCCL", "{} GPUs: a program", "{} classes", "{} devices are visible", "{} elements", "{} generations in a row",
    "{} images again", "{} keys and {} values", "{} names it", "{} nor keys that begin", "{} runs only repeated", "waiting for {}{} nodes",
    "each of the {} tasks of a node", "{} ranks have {}", "{} ranks of {} on", "{} ranks share {}",
    "{} ranks would each train alone", "{} runs Python", "{} runs have done nothing", "{} runs side by side", "{} tasks (CUDA_VISIBLE_DEVICES",
    "{} times at step", "{} training images", "{} unbound tasks", "{} validation images", "{} virtual ranks",
}


@pytest.fixture(scope="module")
def catalogue():
    return messages.catalogue()


def test_messages_of_all_kinds_and_folders_are_found(catalogue):
    assert len(catalogue) > 800
    assert {message.kind for message in catalogue} == {"error", "warning", "note", "line", "finding", "script"}
    assert {message.path.split("/")[0] for message in catalogue} >= {"runtime", "trainer", "spank_plugin", "scripts"}


def test_after_try_is_a_gerund_an_option_or_a_command(catalogue):
    bad = [f"{message.path}:{message.line}: try {action}" for message in catalogue for action in messages.bad_actions(message)
           if not action.startswith(("the checkpoint=", "global-batch=", "recipe ", "default with "))]  # values that nobody types
    assert not bad, "\n".join(bad)


def test_the_form_of_actions_is_checked():
    for action in ("raising --lr", "--epochs=4", "sinfo -N -l", "`srun --ddp rollcall env`", "--a=1, or leaving it out", "scripts/setup --cuda"):
        assert messages.has_form(action), action
    for action in ("unset it", "a number", "again", "another folder", "raising --lr, or another folder", "nothing", "0.9", "reset"):
        assert not messages.has_form(action), action


def test_messages_are_in_plain_words(catalogue):
    bad = [f"{message.path}:{message.line}: {text}" for message in catalogue
           for text in [*message.setting, *message.reasons, *message.actions] if DIALECT.search(re.sub("‹[^›]*›", "", text))]
    assert not bad, "\n".join(bad)


def literals():
    reader = messages.Reader()
    for source in reader.sources:
        for kind, text, line in zip(source.kinds, source.texts, source.lines):
            if kind == "string":
                yield f"{source.path.relative_to(reader.root)}:{line}", text


def test_warnings_have_one_prefix():
    other = re.compile(r"(?<!^rollcall: )(?<!cause a )\b[Ww]arning: [^ ]")
    bad = [f"{place}: {text}" for place, text in literals() if other.search(text)]
    assert not bad, "\n".join(bad)


def test_counts_use_counted_for_singular_and_plural():
    known = re.compile("|".join(map(re.escape, sorted(SEVERAL))) + r"|^{} ranks$")
    bad = [f"{place}: {text}" for place, text in literals() if COUNT.search(text) and not known.search(text)]
    assert not bad, "counted() of runtime/base/text.h gives the right form:\n" + "\n".join(bad)
