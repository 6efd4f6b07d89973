-- Module file for Lmod. It is installed as share/rollcall/modulefiles/rollcall/VERSION.lua, and its folder tells where rollcall is. In a copy
-- elsewhere, write the installation's path here.
local root = myFileName():match("^(.*)/share/rollcall/modulefiles/")
if not root then
   LmodError("rollcall: module: " .. myFileName() .. ": is outside of the installation; try setting `root` in it")
end

whatis("Name: rollcall")
whatis("Version: " .. myModuleVersion())
whatis("Description: starts distributed training on a Slurm cluster, and runs it")
help([[`rollcall --help` and `man rollcall` name the programs. `rollcall install --status` shows whether srun --ddp works here.]])

prepend_path("PATH", pathJoin(root, "bin"))
prepend_path("MANPATH", pathJoin(root, "share/man"))
append_path("MANPATH", "")  -- the system's pages, which man would no longer find
