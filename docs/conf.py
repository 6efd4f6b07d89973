"""The pages as a web site: scripts/site. On GitHub the same files are read as they are."""
import pathlib
import re

DOCS = pathlib.Path(__file__).parent
READERS = {"tutorials": "Tutorials", "user": "For users", "administrator": "For administrators", "reference": "Reference",
           "developer": "For developers"}

project = "rollcall"
extensions = ["myst_parser"]
exclude_patterns = ["man"]
myst_heading_anchors = 4  # the anchors that GitHub gives to headings
html_theme = "furo"
html_title = "rollcall"
html_copy_source = False
html_show_sphinx = False


def trees():
    """What the side bar lists: the pages of each reader, by name."""
    for folder, caption in READERS.items():
        pages = "\n".join(f"{folder}/{page.stem}" for page in sorted((DOCS / folder).glob("*.md")))
        yield f"\n\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{pages}\n```\n"


def read(_app, page, source):
    """The index gets the side bar, which GitHub would show as text. What lies outside this folder is not part of the site."""
    if page == "index":
        source[0] += "".join(trees())
    outside = "../" * (page.count("/") + 1)
    source[0] = re.sub(r"\[([^\]]+)\]\(" + re.escape(outside) + r"[^)]*\)", r"\1", source[0])


def setup(app):
    app.connect("source-read", read)
