"""The pages as a web site: every page is there and can be searched, and a dead link stops the build."""
import importlib.util
import json
import os
import pathlib
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(os.environ.get("ROLLCALL_SOURCE_DIR", pathlib.Path(__file__).resolve().parents[2]))
pytestmark = [pytest.mark.python, pytest.mark.long,
              pytest.mark.skipif(not all(map(importlib.util.find_spec, ("sphinx", "myst_parser", "furo"))),
                                 reason="Sphinx, MyST-Parser and Furo are not installed")]


def build(root, folder):
    return subprocess.run([root / "scripts" / "site", folder], capture_output=True, text=True, check=False, timeout=240)


def test_every_page_is_on_the_site_and_in_its_search(tmp_path):
    done = build(ROOT, tmp_path)
    assert done.returncode == 0, done.stderr
    pages = {str(page.relative_to(ROOT / "docs").with_suffix("")) for page in (ROOT / "docs").glob("**/*.md")}
    assert "index" in pages and len(pages) > 25
    assert [page for page in pages if not (tmp_path / f"{page}.html").exists()] == []
    index = json.loads((tmp_path / "searchindex.js").read_text().removeprefix("Search.setIndex(").removesuffix(")"))
    assert set(index["docnames"]) == pages


def test_a_dead_link_stops_the_build(tmp_path):
    root = tmp_path / "root"
    shutil.copytree(ROOT / "scripts", root / "scripts")
    (root / "docs" / "user").mkdir(parents=True)
    shutil.copy(ROOT / "docs" / "conf.py", root / "docs")
    (root / "docs" / "index.md").write_text("# Index\n\n[A page](user/page.md)\n")
    (root / "docs" / "user" / "page.md").write_text("# A page\n\n[The index](../index.md)\n")
    good = build(root, tmp_path / "good")
    assert good.returncode == 0, good.stderr
    for link in ("nowhere.md", "../index.md#nowhere"):
        (root / "docs" / "user" / "page.md").write_text(f"# A page\n\n[Dead]({link})\n")
        dead = build(root, tmp_path / "dead")
        assert dead.returncode != 0 and "nowhere" in dead.stderr, link
