"""What holds for every spank_rollcall.so, and how the dynamic table of a program or library is read."""

import os
import re
import subprocess

MOST_BYTES = 200_000
NEWEST_GLIBC = (2, 28)  # RHEL 8's
EXPORTED = {
    "plugin_name", "plugin_type", "plugin_version", "spank_plugin_version", "slurm_spank_init", "slurm_spank_init_post_opt",
    "slurm_spank_local_user_init", "slurm_spank_user_init", "slurm_spank_task_init", "slurm_spank_task_exit", "slurm_spank_exit"}


def table(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, "LC_ALL": "C"}).stdout


def symbols(path):
    """Those of the dynamic table: name, version, whether it is defined here, whether it may be missing."""
    for line in table("readelf", "--dyn-syms", "-W", path).splitlines():
        words = line.split()
        if len(words) >= 8 and words[0].rstrip(":").isdigit() and words[7]:
            name, _, version = words[7].partition("@")
            yield name, version.lstrip("@"), words[6] != "UND", words[4] == "WEAK"


def broken_rules(path):
    dynamic, segments, sections = (table("readelf", "-W", option, path) for option in ("-d", "-l", "-S"))
    found = list(symbols(path))
    wanted = {name for name, _, defined, weak in found if not defined and not weak}
    glibc = {version for _, version, defined, _ in found if not defined and version.startswith("GLIBC_")}
    foreign = {name for name, version, defined, weak in found
               if not defined and not version and not weak and not re.match("(slurm|spank)_", name)}
    rules = {
        "links nothing but libc": re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic) == ["libc.so.6"],
        "needs no symbol newer than glibc 2.28": all(
            tuple(int(part) for part in version[6:].split(".")) <= NEWEST_GLIBC for version in glibc),
        "leaves nothing to run after it was unloaded": "__cxa_atexit" not in wanted or any(name == "__cxa_finalize" for name, *_ in found),
        "wants nothing else of its host than Slurm's": not foreign,
        "shows SPANK's symbols alone": {name for name, _, defined, _ in found if defined} == EXPORTED,
        "has a stack protector": "__stack_chk_fail" in wanted,
        "has _FORTIFY_SOURCE": any(name.endswith("_chk") for name in wanted),
        "binds all at once": "BIND_NOW" in dynamic,
        "has its relocations read-only": "GNU_RELRO" in segments,
        "has no text that is written": "TEXTREL" not in dynamic,
        "has no stack that is executed": re.search(r"GNU_STACK.* RW +0", segments) is not None,
        "has no memory that is written and executed": " RWE " not in segments,
        "is stripped": ".symtab" not in sections,
        "has at most 200 KB": path.stat().st_size <= MOST_BYTES,
        "has no path to libraries": "RPATH" not in dynamic and "RUNPATH" not in dynamic,
    }
    return [rule for rule, kept in rules.items() if not kept]
