"""The bill of materials that packaging/sbom writes: valid SPDX, whole, and the same for the same files."""
import json
import os
import re
import shutil
import subprocess

import pytest

from common_fixtures import built
from test_recipes import PACKAGING, ROOT, VERSION, install, program

pytestmark = pytest.mark.python


def sbom(folder, **variables):
    return subprocess.run([PACKAGING / "sbom", folder], env={**os.environ, **variables}, capture_output=True, check=True).stdout


@pytest.fixture(scope="module")
def launch(tmp_path_factory):
    built("runtime/rollcall")
    return install(tmp_path_factory.mktemp("launch"), "launch")


@pytest.fixture(scope="module")
def bill(tmp_path_factory):
    """Of all programs, with the libraries of this system."""
    built("runtime/rollcall")
    for name in ("train", "predict", "pack", "checkpoint", "report", "top", "bench-collectives"):
        built(f"trainer/rollcall-{name}")
    folder = tmp_path_factory.mktemp("sbom")
    file = folder / "rollcall.spdx.json"
    file.write_bytes(sbom(install(folder / "all", "launch", "trainer", "tools")))
    return file


def test_the_bill_of_materials_is_valid(bill):
    done = subprocess.run([program("pyspdxtools"), "-i", bill], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_bill_names_each_library_its_licence_and_version(bill):
    bill = json.loads(bill.read_text())
    packages = {package["SPDXID"]: package for package in bill["packages"]}
    own = packages.pop("SPDXRef-rollcall")
    assert (own["versionInfo"], own["licenseDeclared"]) == (VERSION, "Apache-2.0")
    assert [package["name"] for package in packages.values() if package["licenseDeclared"] == "NOASSERTION"] == []
    relations = {(relation["relationshipType"], packages[relation["relatedSpdxElement"]]["name"])
                 for relation in bill["relationships"] if relation["spdxElementId"] == "SPDXRef-rollcall"}
    assert relations >= {("STATIC_LINK", name) for name in ("libsodium", "fmt", "toml++", "nlohmann-json", "GCC's libraries")}
    assert relations >= {("DYNAMIC_LINK", name) for name in ("LibTorch", "HDF5", "ISA-L", "libjpeg-turbo", "libpng", "GNU C library")}
    versions = {package["name"]: package.get("versionInfo") for package in packages.values()}
    assert re.fullmatch(r"\d+\.\d+\.\d+", versions["LibTorch"])
    for name, module in (("libsodium", "libsodium"), ("HDF5", "hdf5")):
        assert versions[name] == subprocess.run(["pkg-config", "--modversion", module], capture_output=True, text=True).stdout.strip()
    page = (ROOT / "docs" / "developer" / "dependencies.md").read_text()
    ours = set(versions) - {"GCC's libraries", "LLVM's libc++", "GNU C library"}
    assert [name for name in ours if name.lower() not in page.lower()] == []


def test_a_library_that_lies_in_the_folder_is_contained(launch, tmp_path):
    """One that components.toml has not goes by its package."""
    folder = shutil.copytree(launch, tmp_path / "bundle")
    (folder / "lib").mkdir()
    libraries = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
    for name in ("libc.so.6", "liblzma.so.5"):
        shutil.copy(re.search(rf"^\s*{re.escape(name)} \(.*x86-64.*=> (.*)", libraries, re.M)[1], folder / "lib" / name)
    bill = json.loads(sbom(folder))
    licences = {package["name"]: package["licenseDeclared"] for package in bill["packages"]}
    assert (licences["GNU C library"], licences["liblzma5"]) == ("LGPL-2.1-or-later", "NOASSERTION")
    kinds = {relation["relatedSpdxElement"]: relation["relationshipType"] for relation in bill["relationships"]}
    assert (kinds["SPDXRef-GNU-C-library"], kinds["SPDXRef-liblzma5"]) == ("CONTAINS", "CONTAINS")


def test_the_same_files_give_the_same_bill(launch):
    first = sbom(launch, SOURCE_DATE_EPOCH="86400")
    assert first == sbom(launch, SOURCE_DATE_EPOCH="86400")
    assert json.loads(first)["creationInfo"]["created"] == "1970-01-02T00:00:00Z"


def test_a_folder_without_programs_is_refused(tmp_path):
    done = subprocess.run([PACKAGING / "sbom", tmp_path], capture_output=True, text=True)
    message = f"rollcall: sbom: {tmp_path}: has no programs; try cmake --install build/release --prefix {tmp_path}\n"
    assert (done.returncode, done.stderr) == (66, message)
