"""Requirements of the CUDA build on LibTorch's wheel and NCCL's header, in folders with spaces in their names."""
import json
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(os.environ.get("ROLLCALL_SOURCE_DIR", pathlib.Path(__file__).parents[2]))
sys.path.insert(0, str(ROOT / "cmake"))

import check_libtorch  # noqa: E402

pytestmark = pytest.mark.python
PROJECT = """cmake_minimum_required(VERSION 3.25)
project(with_cuda LANGUAGES C)
list(APPEND CMAKE_MODULE_PATH "{cmake}")
set(ROLLCALL_CUDA ON)
find_package(LibTorch REQUIRED)
add_library(both OBJECT both.c)
target_compile_options(both PRIVATE ${{LibTorch_CUDA_COMPILE_OPTIONS}})
"""


@pytest.fixture
def configure(tmp_path):
    """Configures a project that looks for LibTorch 2.15 in a fake wheel, which was built with NCCL 2.30.7, and for nccl.h beside it."""
    site = tmp_path / "site packages"
    for file, text in {"torch/include/ATen/ATen.h": "",
                       "torch/include/torch/headeronly/version.h": "#define TORCH_VERSION_MAJOR 2\n#define TORCH_VERSION_MINOR 15\n"
                                                                   "#define TORCH_VERSION_PATCH 0\n",
                       **{f"torch/lib/lib{name}.so": "" for name in ("torch_cpu", "c10", "torch_cuda", "c10_cuda")},
                       "toolkit/include/cuda_runtime_api.h": "#define ONE_OF_CUDA 1\n",
                       "torch-2.15.0+cu130.dist-info/METADATA": 'Requires-Dist: filelock\nRequires-Dist: nvidia-nccl-cu13==2.30.7; '
                                                                'platform_system == "Linux"\n'}.items():
        (site / file).parent.mkdir(parents=True, exist_ok=True)
        (site / file).write_text(text)
    (tmp_path / "both.c").write_text("#include <nccl.h>\n#include <cuda_runtime_api.h>\nint both = NCCL_MAJOR + ONE_OF_CUDA;\n")
    (tmp_path / "CMakeLists.txt").write_text(PROJECT.format(cmake=ROOT / "cmake"))

    def run(nccl):
        header = site / "nvidia" / "nccl" / "include" / "nccl.h"
        header.parent.mkdir(parents=True)
        header.write_text("".join(f"#define NCCL_{part} {number}\n" for part, number in zip(("MAJOR", "MINOR", "PATCH"), nccl.split("."))))
        return subprocess.run(["cmake", "-G", "Ninja", "-S", tmp_path, "-B", tmp_path / "build", f"-DLibTorch_ROOT={site / 'torch'}",
                               f"-DLibTorch_CUDA_INCLUDE_DIR={site / 'toolkit' / 'include'}"], capture_output=True, text=True, check=False)

    run.site, run.build = site, tmp_path / "build"
    return run


def test_the_nccl_header_of_libtorchs_version_is_accepted(configure):
    configured = configure("2.30.7")
    assert configured.returncode == 0, configured.stderr
    built = subprocess.run(["cmake", "--build", configure.build], capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stdout


@pytest.mark.parametrize("nccl", ["2.28.9", "2.30.4", "2.31.7"])
def test_an_nccl_header_of_another_version_is_refused_with_a_remedy(configure, nccl):
    configured = configure(nccl)
    output = " ".join(configured.stderr.split())
    assert configured.returncode != 0
    assert f"nccl.h: is of NCCL {nccl}, and LibTorch 2.15.0 was built with 2.30.7; try scripts/setup --cuda" in output
    assert "which installs nvidia-nccl-cu13==2.30.7, or -DLibTorch_NCCL_INCLUDE_DIR=DIR" in output


def test_without_wheel_metadata_any_nccl_header_is_accepted(configure):
    (configure.site / "torch-2.15.0+cu130.dist-info" / "METADATA").unlink()
    assert configure("2.28.9").returncode == 0


def test_check_libtorch_replaces_the_include_folders(tmp_path):
    entry = {"directory": str(tmp_path), "file": "/a b/main.cpp",
             "command": r"/usr/bin/ccache c++ -DNAME=\"x\" '-I/a b' -I/site\ packages/torch/include -isystem "
                        r"/site\ packages/torch/include/torch/csrc/api/include -include /build/pch.hxx -Winvalid-pch -o main.o "
                        "-c '/a b/main.cpp'"}
    other = r"/other\1 libtorch"
    assert check_libtorch.with_libtorch(entry, other) == {
        "directory": str(tmp_path),
        "words": ["c++", '-DNAME="x"', "-I/a b", f"-I{other}/include", "-isystem", f"{other}/include/torch/csrc/api/include", "/a b/main.cpp"]}


def test_check_libtorch_compiles_in_folders_with_spaces(tmp_path, capfd):
    """The same file with headers in which it compiles, and with those of another LibTorch, in which it does not."""
    folder = tmp_path / "a build"
    for libtorch, text in (("old wheel/torch", "constexpr int kThere = 1;\n"), ("new wheel/torch", "")):
        (folder / libtorch / "include").mkdir(parents=True)
        (folder / libtorch / "include" / "there.h").write_text(text)
        (folder / libtorch / "version.py").write_text("__version__ = '2.11.0'\n")
    (folder / "trainer").mkdir()
    (folder / check_libtorch.HEADER).write_text("#pragma once\n")
    (folder / "main.cpp").write_text("#include <there.h>\nint there() { return kThere; }\n")
    command = f"c++ '-I{folder}' -isystem '{folder}/old wheel/torch/include' -o main.o -c '{folder}/main.cpp'"
    (folder / "compile_commands.json").write_text(json.dumps([{"directory": str(folder), "file": str(folder / "main.cpp"), "command": command}]))

    def check(libtorch):
        return check_libtorch.main(str(folder / libtorch), str(folder / "precompiled"), str(folder / "compile_commands.json"))

    assert check("old wheel/torch") == 0
    assert check("new wheel/torch") == 1
    assert "0 of 1 compilations pass with LibTorch 2.11.0" in capfd.readouterr().out
