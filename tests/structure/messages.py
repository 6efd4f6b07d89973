"""Reads the sources and lists every message that users can see: `messages.py [--bad] [FOLDER...]`.

A message is an Error (`fail(...)`, `Error{...}`), a warning, or a line that begins with "rollcall: ". The reader follows constants, local
variables, functions that return texts, and functions that pass their parameters on to an Error; what it cannot follow is shown as ‹source›.
"""
import dataclasses
import itertools
import os
import pathlib
import re
import sys

from cpp_source import CLOSE, OPEN, Source

ROOT = pathlib.Path(os.environ.get("ROLLCALL_SOURCE_DIR", pathlib.Path(__file__).resolve().parents[2]))
FOLDERS = ("runtime", "trainer", "spank_plugin", "scripts", "sbatch_templates", "site_config")
MOST = 24  # alternatives of one text
THIN = {"string", "string_view", "move", "printable", "c_str", "str", "value_or"}
# The first word of a command that a message may advise.
COMMANDS = set("""cat chgrp chmod chown curl df dmesg env export find getent grep ibv_devinfo id ip kill ldd ls lsof mkdir mount mpirun mv
    nvidia-smi openssl pip prlimit ps python python3 quota rm rollcall rollcall-bench-collectives rollcall-checkpoint rollcall-pack
    rollcall-predict rollcall-report rollcall-train sacct salloc sbatch scancel scontrol sinfo squeue srun ss stat tar umask ulimit""".split())


@dataclasses.dataclass
class Message:
    path: str
    line: int
    kind: str
    setting: list
    value: list
    reasons: list
    actions: list

    def __str__(self):
        def shown(texts):
            return texts[0] if len(texts) == 1 else "[" + " | ".join(texts) + "]"
        head = ": ".join(shown(part) for part in (self.setting, self.value, self.reasons) if part and part != [""])
        tail = f"; {'advice: ' if self.kind == 'finding' else 'try '}{shown(self.actions)}" if self.actions not in ([], [""]) else ""
        return f"{self.path}:{self.line}: {self.kind}: {head}{tail}".replace("\n", "\\n")


class Reader:
    def __init__(self, root=ROOT):
        self.root = root
        self.sources = [Source(path) for folder in FOLDERS[:3] for path in sorted((root / folder).rglob("*"))
                        if path.suffix in {".h", ".cpp", ".cu"}]
        self.functions, self.constants, self.members, self.calls = {}, {}, {}, {}
        self.read = set()  # the literals that are part of a message
        for source in self.sources:
            for function in source.functions:
                self.functions.setdefault(function.name, []).append(function)
            for i in range(len(source.texts)):
                if not source.word(i):
                    continue
                if source.is_(i + 1, "("):
                    self.calls.setdefault(source.texts[i], []).append((source, i))
                if re.match(r"k[A-Z]", source.texts[i]) and source.is_(i + 1, "=", "{", "("):
                    self.constants.setdefault(source.texts[i], []).append((source, *self.initialiser(source, i + 1)))
                if source.is_(i - 1, ".") and source.is_(i - 2, "{", ",") and source.is_(i + 1, "="):
                    self.members.setdefault(source.texts[i], []).append((source, *self.initialiser(source, i + 1)))

    @staticmethod
    def initialiser(source, i):
        """The range of tokens of `= ...;`, `= ...,`, `{...}` or `(...)`."""
        if source.is_(i, "{", "("):
            return i + 1, source.match.get(i, i + 1)
        j = i + 1
        while j < len(source.texts) and not source.is_(j, ";", ",", *CLOSE):
            j = source.match[j] + 1 if j in source.match else j + 1
        return i + 1, j

    def evaluate(self, source, begin, end, binding, depth=0):
        """All texts that the expression may give; a parameter that `binding` lacks is asked for in binding[None]."""
        texts = self.alternatives(source, begin, end, binding, depth)
        is_shown = any(not re.fullmatch(r"…*‹[^›]*›", text) for text in texts)
        return texts if is_shown else [f"‹{source.text(begin, end)}›"]

    def alternatives(self, source, begin, end, binding, depth):
        while source.is_(begin, "(") and source.match.get(begin) == end - 1:
            begin, end = begin + 1, end - 1
        if begin >= end:
            return [""]
        if depth > 10:
            return [f"‹{source.text(begin, end)}›"]
        deeper = depth + 1
        question = next((part[1] for part in source.split(begin, end, "?")[:1] if part[1] < end), None)
        if question is not None:
            level, colon = 0, question + 1
            while colon < end and not (source.is_(colon, ":") and level == 0):
                level += source.is_(colon, "?") - source.is_(colon, ":")
                colon = source.match[colon] + 1 if source.is_(colon, *OPEN) and colon in source.match else colon + 1
            return unique([*self.evaluate(source, question + 1, colon, binding, deeper),
                           *self.evaluate(source, colon + 1, end, binding, deeper)])
        parts = source.split(begin, end, "+")
        if len(parts) > 1:
            return product([self.evaluate(source, *part, binding, deeper) for part in parts])
        if end == begin + 1:
            if source.kinds[begin] == "string":
                self.read.add((source.path, begin))
                return [source.texts[begin]]
            return self.name(source, begin, binding, deeper)
        if source.is_(end - 1, ")", "}") and end - 1 in source.match:
            opening = source.match[end - 1]
            name = source.texts[opening - 1] if opening > begin and source.word(opening - 1) else ""
            chained = any(source.is_(i, ".", "->") for i in range(begin, opening))
            arguments = source.split(opening + 1, end - 1)
            if name in {"format", "print"} and arguments:
                return self.format(source, arguments, binding, deeper)
            if name == "counted" and len(arguments) > 1:
                nouns = self.evaluate(source, *arguments[-1], binding, deeper)
                return [f"‹{source.text(*arguments[0])}› {noun}{'s' * (len(arguments) == 2)}" for noun in nouns]
            if name in THIN and not chained and arguments:
                return self.evaluate(source, *arguments[0], binding, deeper)
            if name in {"string", "string_view"} and not arguments:
                return [""]
            if name and not chained:
                return self.call(source, name, arguments, binding, deeper) or [f"‹{source.text(begin, end)}›"]
        if source.word(end - 1) and source.is_(end - 2, ".", "->"):
            places = self.members.get(source.texts[end - 1], [])
            if 0 < len(places) <= 8 and source.texts[end - 1] not in {"reason", "action", "setting", "value", "text"}:
                found = unique([text for place in places for text in self.evaluate(*place, {}, depth + 6)])
                if not any(re.fullmatch("‹[^›]*›", text) for text in found):
                    return found
        if source.word(end - 1) and source.is_(end - 2, "::"):
            return self.name(source, end - 1, binding, deeper)
        return [f"‹{source.text(begin, end)}›"]

    def name(self, source, i, binding, depth):
        name = source.texts[i]
        function = source.function_at(i)
        around = [f for f in source.functions if f.begin < i < f.end]
        if name in binding:
            return binding[name]
        if any(name == parameter for parameter, _ in (function.parameters if function else [])):
            binding.setdefault(None, set()).add(name)
            return [f"‹{name}›"]
        for f in sorted(around, key=lambda f: -f.begin):
            found = []
            for j in range(f.begin, min(f.end, i + 1000)):
                if source.texts[j] == name and source.word(j) and not source.is_(j - 1, ".", "->", "::"):
                    if source.is_(j + 1, "="):
                        found += self.evaluate(source, *self.initialiser(source, j + 1), binding, depth)
                    elif source.is_(j + 1, "{", "(") and (source.word(j - 1) or source.is_(j - 1, "&", ">")) and j + 1 in source.match:
                        found += self.evaluate(source, *self.initialiser(source, j + 1), binding, depth) if j + 2 < source.match[j + 1] else []
                    elif source.is_(j + 1, "+="):
                        found += ["…" + text for text in self.evaluate(source, *self.initialiser(source, j + 1), binding, depth)]
            if found:
                return unique(found)
        constants = self.constants.get(name, [])
        found = [text for place in [c for c in constants if c[0] is source] or constants for text in self.evaluate(*place, {}, depth)]
        return unique(found) if found else [f"‹{name}›"]

    def call(self, source, name, arguments, binding, depth):
        """The texts that a function of ours returns."""
        known = self.functions.get(name, [])
        found = []
        for function in [f for f in known if f.source is source] or known[:2 * (len(known) < 3)]:
            if not function.takes(len(arguments)) or function.name == "[]":
                continue
            bound = {parameter: self.evaluate(source, *argument, binding, depth)
                     for (parameter, _), argument in zip(function.parameters, arguments) if parameter}
            inner = function.source
            for i in range(function.begin, function.end):
                if inner.is_(i, "return") and inner.function_at(i) is function:
                    _, stop = self.initialiser(inner, i)
                    stop = next((j for j in self.top_level(inner, i + 1) if inner.is_(j, ";")), stop)
                    if not inner.is_(i + 1, "{", "fail"):
                        found += self.evaluate(inner, i + 1, stop, bound, depth)
        return unique(found)

    @staticmethod
    def top_level(source, i):
        while i < len(source.texts):
            yield i
            i = source.match[i] + 1 if source.is_(i, *OPEN) and i in source.match else i + 1

    def format(self, source, arguments, binding, depth):
        values = [self.evaluate(source, *argument, binding, depth) for argument in arguments[1:]]
        results = []
        if source.is_(arguments[0][0], "stderr", "stdout"):
            arguments, values = arguments[1:], values[1:]
        for text in self.evaluate(source, *arguments[0], binding, depth):
            pieces = re.split(r"(\{\{|\}\}|\{[^{}]*\})", text)
            left = iter(values)
            parts = []
            for piece in pieces:
                if piece in ("{{", "}}"):
                    parts.append([piece[0]])
                elif piece.startswith("{") and piece.endswith("}"):
                    number = re.match(r"\{(\d+)", piece)
                    value = values[int(number[1])] if number and int(number[1]) < len(values) else next(left, ["‹?›"])
                    parts.append(value if len(value) <= 6 else [f"‹{len(value)} texts›"])
                else:
                    parts.append([piece])
            results += product(parts)
        return unique(results)

    def errors(self):
        for source in self.sources:
            for i in range(len(source.texts)):
                is_fail = source.is_(i, "fail") and source.is_(i + 1, "(") and not source.is_(i - 1, ".", "->", "Error")
                is_error = source.is_(i, "Error") and source.is_(i + 1, "{")
                if (is_fail or is_error) and i + 1 in source.match:
                    arguments = source.split(i + 2, source.match[i + 1])
                    inside = source.function_at(i)
                    if 4 <= len(arguments) <= 6 and not source.is_(arguments[0][0], ".") and not (inside and inside.name == "fail"):
                        yield from self.error(source, i, arguments)

    def error(self, source, i, arguments):
        """An Error; one for each caller of the function around it where its reason or action is the caller's."""
        function, asked = source.function_at(i), {}
        for argument in arguments[2:4]:
            self.evaluate(source, *argument, asked)
        callers = list(self.callers(function, asked[None])) if asked.get(None) else []
        for place, at, binding in callers or [(source, i, {})]:
            texts = [self.evaluate(source, *argument, dict(binding)) for argument in arguments[:4]]
            yield Message(str(place.path.relative_to(self.root)), place.lines[at], "error", *texts)

    def callers(self, function, wanted, depth=0):
        """Where a function is called, and the texts of its parameters there; those of the caller's callers where a wanted one is theirs."""
        for source, i in self.calls.get(function.name, []):
            if self.called(source, i) is not function:
                continue
            given, asked = source.split(i + 2, source.match[i + 1]), {}
            for (name, _), argument in zip(function.parameters, given):
                self.evaluate(source, *argument, asked if name in wanted else {})
            outer = list(self.callers(source.function_at(i), asked[None], depth + 1)) if asked.get(None) and depth < 2 else []
            for place, at, binding in outer or [(source, i, {})]:
                yield place, at, {
                    name: self.evaluate(source, *given[k], dict(binding)) if k < len(given) else self.evaluate(function.source, *default, {})
                    for k, (name, default) in enumerate(function.parameters) if name}

    def called(self, source, i):
        """The function that is called here: the file's own, or the one that others can call, of its folder first; None: not known."""
        known = [function for function in self.functions[source.texts[i]] if self.fits((source, i), function)]
        own = [function for function in known if function.source is source]
        visible = [function for function in known if not function.is_local]
        near = [function for function in visible if function.source.path.parent == source.path.parent]
        return next((some[0] for some in (own, near, visible) if some and (some is own or len(some) == 1)), None)

    @staticmethod
    def fits(call, function):
        source, i = call
        inside = source.function_at(i)
        if i == function.at or i + 1 not in source.match:
            return False
        return inside is not None and inside is not function and function.takes(len(source.split(i + 2, source.match[i + 1])))

    def others(self):
        """Warnings, findings of the doctor, failures of the plugin, and other texts with the program's name or with an action."""
        for source in self.sources:
            for i in range(len(source.texts)):
                if source.word(i) and source.is_(i + 1, "(") and i + 1 in source.match and source.function_at(i):
                    yield from self.messages_of_call(source, i, source.split(i + 2, source.match[i + 1]))
        for source in self.sources:
            for i, text in enumerate(source.texts):
                if source.kinds[i] != "string" or (source.path, i) in self.read or not re.match(r"rollcall: .*\w|.+; try ", text, re.S):
                    continue
                if any(source.texts[k] in {"format", "print"} for k in (i - 2, i - 4)):
                    opening = i - 1 if source.is_(i - 1, "(") else i - 3
                    texts = self.format(source, source.split(opening + 1, source.match[opening]), {}, 0)
                else:
                    end = next(k for k in self.top_level(source, i) if source.is_(k, ",", ";", "?", ":", *CLOSE))
                    texts = self.evaluate(source, i, end, {})
                yield from self.line(source, i, "line", texts)

    def messages_of_call(self, source, i, arguments):
        name, owner = source.texts[i], source.texts[i - 2] if source.is_(i - 1, ".", "->") else ""
        if len(arguments) == 1 and (name == "push_back" and re.search(r"(warnings|notes|problems)_?$", owner)
                                    or re.match(r"(warn(_of_this_node)?|note)$", name)):
            kind = "note" if "note" in owner + name else "warning"
            yield from self.line(source, i, kind, self.evaluate(source, *arguments[0], {}))
        elif name == "add" and owner == "grouped" and len(arguments) in (3, 4):
            texts = [self.evaluate(source, *argument, {}) for argument in arguments[2:]]
            yield Message(str(source.path.relative_to(self.root)), source.lines[i], "finding", [], [], texts[0], (texts + [[]])[1])
        elif name == "failed" and len(arguments) > 1 and source.path.is_relative_to(self.root / "spank_plugin"):
            self.read.update((source.path, k) for k in range(*arguments[1]))
            text = "".join(source.texts[k] if source.kinds[k] == "string" else "‹version›" for k in range(*arguments[1]))
            yield from self.line(source, i, "error", [text])

    def line(self, source, i, kind, texts):
        for text in texts:
            reason, _, action = text.partition("; try ")
            inside = source.function_at(i)
            if kind == "line" and ("warning" in text[:30] or inside and "warning" in inside.name):
                kind = "warning"
            yield Message(str(source.path.relative_to(self.root)), source.lines[i], kind, [], [], [reason], [action] if action else [])

    def scripts(self):
        """The messages of shell and Python scripts: quoted texts behind "rollcall: ", and what die and fail are given."""
        for folder in FOLDERS[3:]:
            for path in sorted((self.root / folder).rglob("*")):
                if not path.is_file() or path.suffix in {".toml", ".png"}:
                    continue
                for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
                    for match in re.finditer(r"""\b(die|fail|leave|echo|printf|print)\b[ (]+f?(?P<q>["'])(?P<text>.*?[^\\])(?P=q)""", line):
                        text = match["text"]
                        if match[1] in {"die", "fail", "leave"} and " " in text or re.match(r"(\\n)?(rollcall|[\w-]+\.sbatch): ", text):
                            reason, _, action = text.removesuffix("\\n").partition("; try ")
                            yield Message(str(path.relative_to(self.root)), number, "script", [], [], [reason], [action] if action else [])


def unique(texts):
    return list(dict.fromkeys(texts))[:MOST]


def product(parts):
    return unique(map("".join, itertools.islice(itertools.product(*parts), 4 * MOST)))


def alternatives(action):
    """The parts of "a, b, or c" that each must be an action of its own: the first one, and what follows ", or "."""
    return re.split(r",? or (?=-)|, or ", action)


def has_form(action):
    """Whether "try ACTION" is a sentence: a gerund, an option or a command, or several of these."""
    def is_action(part):
        part = part.strip()
        word = part.split(" ")[0].rstrip(",:;") if part else ""
        return (bool(re.fullmatch(r"[a-z][a-z-]*ing", word)) and word not in {"nothing", "string", "something", "thing"}
                or bool(re.match(r"-{1,2}[a-zA-Z‹]|`|‹|…|scripts/|\$\d=|\{", part)) or word in COMMANDS
                or bool(re.match(r"[A-Z_]+=\S+ \w", part)))
    return all(is_action(part) for part in alternatives(action))


def catalogue(root=ROOT):
    reader = Reader(root)
    messages = [*reader.errors(), *reader.others(), *reader.scripts()]
    return sorted({str(message): message for message in messages}.values(), key=lambda m: (m.path, m.line))


def bad_actions(message):
    return [action for action in message.actions if action and not has_form(action)] if message.kind != "finding" else []


def main(arguments):
    folders = [argument.rstrip("/") for argument in arguments if not argument.startswith("-")]
    for message in catalogue():
        if "--bad" in arguments:
            message.actions = bad_actions(message)
        inside = not folders or any(message.path == folder or message.path.startswith(folder + "/") for folder in folders)
        if inside and ("--bad" not in arguments or message.actions):
            print(message)


if __name__ == "__main__":
    main(sys.argv[1:])
