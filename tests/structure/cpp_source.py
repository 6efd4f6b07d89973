"""Reads C++ sources as tokens, matching brackets and functions, as far as tests of the repository need them. It knows no types."""
import dataclasses
import re

TOKEN = re.compile(r"""
    (?P<skip>\s+|//[^\n]*|/\*.*?\*/|^[ \t]*\#(?:\\\n|[^\n])*)
  | (?P<raw>R"(?P<mark>[^(\s]*)\((?P<content>.*?)\)(?P=mark)")
  | (?P<string>"(?:[^"\\]|\\.)*")
  | (?P<other>'(?:[^'\\]|\\.)+'|\d(?:[\w.]|'\d)*|[A-Za-z_]\w*|::|->|&&|\|\||==|!=|<=|>=|\+=|.)
    """, re.X | re.S | re.M)
OPEN, CLOSE = "([{", ")]}"
NOT_FUNCTIONS = {"if", "for", "while", "switch", "catch", "return", "sizeof", "decltype", "noexcept", "alignas", "requires"}


def plain(text):
    return re.sub(r"\\(.)", lambda m: {"n": "\n", "t": "\t", "0": ""}.get(m[1], m[1]), text[1:-1])


class Source:
    """The tokens of a C++ file, its matching brackets, and its functions."""

    def __init__(self, path):
        self.path = path
        self.kinds, self.texts, self.lines = [], [], []
        line = 1
        content = path.read_text()
        for match in TOKEN.finditer(content):
            if match["raw"]:
                self.put("string", match["content"], line)
            elif match["string"]:
                self.put("string", plain(match["string"]), line)
            elif match["other"]:
                self.put("other", match["other"], line)
            line += match[0].count("\n")
        self.match = {}
        stack = []
        for i, text in enumerate(self.texts):
            if self.kinds[i] == "other" and text in OPEN and len(text) == 1:
                stack.append(i)
            elif self.kinds[i] == "other" and text in CLOSE and len(text) == 1 and stack:
                opening = stack.pop()
                self.match[opening], self.match[i] = i, opening
        self.functions = list(self.find_functions())

    def put(self, kind, text, line):
        if kind == "string" and self.kinds and self.kinds[-1] == "string":
            self.texts[-1] += text
            return
        self.kinds.append(kind)
        self.texts.append(text)
        self.lines.append(line)

    def is_(self, i, *texts):
        return 0 <= i < len(self.texts) and self.kinds[i] == "other" and self.texts[i] in texts

    def word(self, i):
        return 0 <= i < len(self.texts) and self.kinds[i] == "other" and re.fullmatch(r"[A-Za-z_]\w*", self.texts[i]) is not None

    def split(self, begin, end, separator=","):
        """The ranges between separators at the top level of [begin, end)."""
        parts, start, i = [], begin, begin
        while i < end:
            if i in self.match and self.match[i] > i:
                i = self.match[i]
            elif self.is_(i, separator):
                parts.append((start, i))
                start = i + 1
            i += 1
        return [*parts, (start, end)] if end > begin else []

    def find_functions(self):
        for i in range(len(self.texts)):
            if not self.is_(i, "(") or i not in self.match:
                continue
            name = self.texts[i - 1] if self.word(i - 1) else ""
            at = i - 1
            if self.is_(i - 1, "]") and (i - 1) in self.match:  # a lambda: its name, where it has one
                before = self.match[i - 1] - 1
                name = self.texts[before - 1] if self.is_(before, "=") and self.word(before - 1) else "[]"
                at = before - 1
            if not name or name in NOT_FUNCTIONS:
                continue
            j = self.match[i] + 1
            while j < len(self.texts) and not self.is_(j, "{", ";", ",", ")", "(", "=", "}", "?", ":") and self.kinds[j] == "other":
                j = j + 1
            if self.is_(j, ":") and self.is_(self.match[i] + 1, ":"):  # a constructor's members
                while j < len(self.texts) and not self.is_(j, ";") and not (self.is_(j, "{") and not self.word(j - 1)):
                    j = self.match[j] + 1 if self.is_(j, "(", "{") and j in self.match else j + 1
            if not self.is_(j, "{") or j not in self.match or self.is_(i - 2, ".", "->") or self.is_(at - 1, "return", "new"):
                continue
            parameters = []
            for begin, end in self.split(i + 1, self.match[i]):
                stop = next((k for k in range(begin, end) if self.is_(k, "=")), end)
                parameters.append((self.texts[stop - 1] if stop - begin > 1 and self.word(stop - 1) else "", (stop + 1, end)))
            yield Function(self, name, parameters, j, self.match[j], at)

    def function_at(self, i):
        """The innermost function around a token that has a name of its own, or a lambda's."""
        inside = [function for function in self.functions if function.begin < i < function.end]
        return max(inside, key=lambda function: function.begin, default=None)

    def text(self, begin, end):
        words = [f'"{t}"' if k == "string" else t for k, t in zip(self.kinds[begin:end], self.texts[begin:end])]
        return re.sub(r"\s*(::|->|[.()\[\]&*])\s*", r"\1", " ".join(words)).replace(" ,", ",")


@dataclasses.dataclass(eq=False)
class Function:
    source: Source
    name: str
    parameters: list
    begin: int
    end: int
    at: int

    def takes(self, count):
        return sum(begin >= end for _, (begin, end) in self.parameters) <= count <= len(self.parameters)

    @property
    def is_local(self):
        """Whether it is in an unnamed namespace or in another function, so that no other file can call it."""
        source = self.source
        unnamed = (source.match.get(i + 1, 0) for i in range(self.at) if source.is_(i, "namespace") and source.is_(i + 1, "{"))
        return source.function_at(self.at) is not None or any(end > self.at for end in unnamed)
