#%Module1.0
# Module file for Environment Modules. It is installed as share/rollcall/modulefiles/rollcall/VERSION, and its folder tells where rollcall is.
# In a copy elsewhere, write the installation's path in place of the next lines.
if {![regexp {^(.*)/share/rollcall/modulefiles/} $ModulesCurrentModulefile match root]} {
    puts stderr "rollcall: module: $ModulesCurrentModulefile: is outside of the installation; try setting `root` in it"
    break
}

module-whatis "starts distributed training on a Slurm cluster, and runs it"
proc ModulesHelp {} {
    puts stderr "`rollcall --help` and `man rollcall` name the programs. `rollcall install --status` shows whether srun --ddp works here."
}
conflict rollcall

prepend-path PATH $root/bin
prepend-path MANPATH $root/share/man
append-path MANPATH {};  # the system's pages, which man would no longer find
