from spack.package import conflicts, depends_on, join_path, license, variant, version, when
from spack_repo.builtin.build_systems.cmake import CMakePackage


class Rollcall(CMakePackage):
    """Starts distributed training on a Slurm cluster, and runs it: srun --ddp python train.py. With +trainer it has a trainer on LibTorch."""

    license("Apache-2.0")

    # There is no public address: spack develop --path=SOURCES rollcall@VERSION
    version("0.1.0")

    variant("trainer", default=True, description="rollcall-train and the programs for its data, checkpoints and reports")
    variant("cuda", default=False, when="+trainer", description="train on NVIDIA's GPUs")
    variant("mpi", default=False, when="+trainer", description="collectives by MPI (--backend=mpi)")
    variant("ucx", default=True, when="+trainer", description="collectives by UCX (--backend=ucx)")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("fmt@9.1:", type="build")
    depends_on("nlohmann-json@3.11:", type="build")
    depends_on("tomlplusplus@3.3:", type="build")
    depends_on("pmix@4.2:", type="build")
    depends_on("libsodium@1.0.18:")
    depends_on("zlib-api")
    # The site's own, as an external package: the plugin fits one version of Slurm alone.
    depends_on("slurm@22.05:", type=("build", "run"))

    with when("+trainer"):
        depends_on("py-torch@2.11: +distributed ~cuda", when="~cuda")
        depends_on("py-torch@2.11: +distributed +cuda +nccl", when="+cuda")
        depends_on("hdf5@1.10: ~mpi")
        depends_on("isa-l@2.30:")
        depends_on("libjpeg-turbo@2.1:")
        depends_on("libpng@1.6:")
        depends_on("libwebp@1.2: +libwebpdemux")
        depends_on("libtiff@4.5:")
        depends_on("giflib@5.2:")
    depends_on("cuda@13.0:", when="+cuda")
    depends_on("nccl", when="+cuda")
    depends_on("mpi@3:", when="+mpi")
    depends_on("ucx@1.13:", when="+ucx")

    conflicts("%gcc@:11")
    conflicts("%clang@:13")

    def cmake_args(self):
        spec = self.spec
        options = [
            self.define("ROLLCALL_TESTS", False),
            self.define("ROLLCALL_BENCHMARKS", False),
            self.define("ROLLCALL_TRAINER", spec.satisfies("+trainer")),
            self.define("ROLLCALL_CUDA", spec.satisfies("+cuda")),
            self.define("CMAKE_DISABLE_FIND_PACKAGE_UCX", not spec.satisfies("+ucx")),
            self.define("CMAKE_DISABLE_FIND_PACKAGE_MPI", not spec.satisfies("+mpi")),
            self.define("Slurm_ROOT", spec["slurm"].prefix),
            self.define("PMIx_ROOT", spec["pmix"].prefix),
        ]
        if spec.satisfies("+trainer"):
            # Its own decoder needs a private header that Spack does not install.
            options.append(self.define("ROLLCALL_OWN_ENTROPY_DECODER", False))
            cmake_files = self["py-torch"].cmake_prefix_paths[0]  # torch/share/cmake
            options.append(self.define("LibTorch_ROOT", join_path(cmake_files, "..", "..")))
        return options
