"""site_config/rollcall-tmpfiles.conf: systemd-tmpfiles removes old files in rollcall's folders and follows no links in them."""
import os
import pathlib
import re
import shutil
import subprocess

import pytest

pytestmark = pytest.mark.python
ROOT = pathlib.Path(os.environ.get("ROLLCALL_SOURCE_DIR", pathlib.Path(__file__).parents[2]))


@pytest.mark.skipif(shutil.which("systemd-tmpfiles") is None, reason="no systemd-tmpfiles")
def test_old_files_are_removed_and_links_are_not_followed(tmp_path):
    def clean(text):
        (tmp_path / "rollcall.conf").write_text(re.sub(r"(?m)^e /", f"e {tmp_path}/", text))
        command = ["systemd-tmpfiles", "--clean", tmp_path / "rollcall.conf"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0 and done.stderr == ""

    files = [tmp_path / name for name in ("tmp/rollcall-me/job-7/triton/a", "tmp/rollcall_run_ab12/log", "dev/shm/rollcall-1000-0abc/step.h5")]
    kept = [tmp_path / name for name in ("home/thesis", "tmp/other/thesis")]
    for path in files + kept:
        path.parent.mkdir(parents=True)
        path.touch()
    (tmp_path / "tmp/rollcall-link").symlink_to(tmp_path / "home")
    (tmp_path / "tmp/rollcall-me/job-7/link").symlink_to(tmp_path / "home")
    text = (ROOT / "site_config" / "rollcall-tmpfiles.conf").read_text()
    clean(text)
    assert all(path.exists() for path in files + kept), "they are new"
    clean(re.sub(r"(?m)\d+d$", "0", text))
    assert [path for path in files if path.exists()] == []
    assert all(path.exists() for path in kept)
