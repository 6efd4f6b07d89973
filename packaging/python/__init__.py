"""Starts the programs of rollcall, which lie in this package's folder bin."""
import importlib.util
import os
import pathlib
import sys

PACKAGE = pathlib.Path(__file__).parent


def main():
    """Becomes the program with the name that this one was started by."""
    program = PACKAGE / "bin" / pathlib.Path(sys.argv[0]).name
    # The programs look for torch beside this package. A virtual environment may see one elsewhere (--system-site-packages).
    torch = importlib.util.find_spec("torch")
    folder = pathlib.Path(torch.origin).parent if torch and torch.origin else None
    if folder and folder != PACKAGE.parent / "torch":
        os.environ["LD_LIBRARY_PATH"] = ":".join(filter(None, [str(folder / "lib"), os.environ.get("LD_LIBRARY_PATH")]))
    os.execv(program, [str(program), *sys.argv[1:]])
