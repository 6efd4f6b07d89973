"""Code compares the kind of an Error: its texts are for people, and several kinds share an exit code (runtime/base/error_kind.h)."""
import os
import pathlib
import re

import pytest

pytestmark = pytest.mark.python
ROOT = pathlib.Path(os.environ.get("ROLLCALL_SOURCE_DIR", pathlib.Path(__file__).parents[2]))
COMPARED = re.compile(r"""
    \bexit_code\(\)\s*[!=]=  |  [!=]=\s*[\w.>()*-]*\bexit_code\(\)  |
    \b(error\(\)|error|failure|cause)(\.|->)(setting|value|reason|action|text\(\)|message\(\))
      (\s*[!=]=  |  \.(find|starts_with|ends_with|contains|compare|rfind)\()
    """, re.X)


def test_no_code_distinguishes_errors_by_text_or_exit_code():
    found = []
    for folder in ("runtime", "trainer", "spank_plugin"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in {".h", ".cpp", ".cu"}:
                found += [f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
                          for number, line in enumerate(path.read_text().splitlines(), 1) if COMPARED.search(line)]
    assert not found, "\n".join(found)


def test_comparisons_of_error_texts_are_detected():
    for line in ("if (error.exit_code() == ExitCode::Unavailable)", "if (ExitCode::Usage != done.error().exit_code())",
                 'if (error.setting == "device")', 'x.error().action.find("--checkpoint-timeout")', 'failure->reason.starts_with("x")'):
        assert COMPARED.search(line), line
    for line in ("return to_int(error.exit_code());", "error.kind == ErrorKind::PeerLost", 'error.reason += "x";'):
        assert not COMPARED.search(line), line
