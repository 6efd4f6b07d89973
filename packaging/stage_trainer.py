"""stage_trainer.py ROOT: gives the programs of the trainer in ROOT/usr/lib/rollcall/trainer LibTorch's libraries, as no distribution has them.

All other libraries are packages of the distribution, which a package of the trainer depends on.
"""
import pathlib
import sys

import staged

root = pathlib.Path(sys.argv[1])
folder = root / "usr/lib/rollcall/trainer"
needed = staged.needed(staged.elf_files(folder), ())
of_the_system = [name for name, path in needed.items() if any(map(path.is_relative_to, ("/usr/lib", "/lib", "/usr/lib64", "/lib64")))]
libraries = staged.bundle(folder, left=of_the_system)
staged.copy_licences(libraries, root / "usr/share/doc/rollcall-trainer/licences")
