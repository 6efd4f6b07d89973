# FindLibTorch: LibTorch from the PyPI wheel or from an unpacked LibTorch archive, without a CUDA toolkit.
#
# The wheel's own TorchConfig.cmake demands a CUDA toolkit even where only the CPU part is used; this module does not.
#   LibTorch_ROOT (variable or environment)  folder that holds include/ and lib/ (site-packages/torch)
# Offers
#   LibTorch::cpu    libtorch_cpu and libc10
#   LibTorch::cuda   adds libtorch_cuda and libc10_cuda; only where ROLLCALL_CUDA is on. What includes CUDA's or NCCL's headers
#                    takes LibTorch_CUDA_COMPILE_OPTIONS as well

set(_libtorch_hints ${LibTorch_ROOT} $ENV{LibTorch_ROOT})
if(NOT _libtorch_hints)
  # What scripts/setup installed.
  execute_process(COMMAND ${PROJECT_SOURCE_DIR}/scripts/setup --print-libtorch
                  OUTPUT_VARIABLE _libtorch_hints OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()

find_path(LibTorch_INCLUDE_DIR ATen/ATen.h HINTS ${_libtorch_hints} PATH_SUFFIXES include NO_DEFAULT_PATH)
find_library(LibTorch_CPU_LIBRARY torch_cpu HINTS ${_libtorch_hints} PATH_SUFFIXES lib NO_DEFAULT_PATH)
find_library(LibTorch_C10_LIBRARY c10 HINTS ${_libtorch_hints} PATH_SUFFIXES lib NO_DEFAULT_PATH)

set(_version_header ${LibTorch_INCLUDE_DIR}/torch/headeronly/version.h)
if(LibTorch_INCLUDE_DIR AND EXISTS ${_version_header})
  file(STRINGS ${_version_header} _version_lines REGEX "#define TORCH_VERSION_(MAJOR|MINOR|PATCH) ")
  string(REGEX MATCHALL "[0-9]+" LibTorch_VERSION "${_version_lines}")
  list(JOIN LibTorch_VERSION "." LibTorch_VERSION)
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(LibTorch
  REQUIRED_VARS LibTorch_CPU_LIBRARY LibTorch_C10_LIBRARY LibTorch_INCLUDE_DIR
  VERSION_VAR LibTorch_VERSION
  REASON_FAILURE_MESSAGE "run scripts/setup, or pass -DLibTorch_ROOT=DIR with DIR/include and DIR/lib")

if(LibTorch_FOUND AND NOT LibTorch_VERSION MATCHES "^2\\.(11|15)\\.")
  message(WARNING "rollcall: LibTorch ${LibTorch_VERSION}: was not tried: tested with 2.15, and compiles with 2.11; try scripts/setup, or "
                  "-DLibTorch_ROOT=DIR with one of these")
endif()
if(LibTorch_FOUND AND NOT TARGET LibTorch::cpu)
  get_filename_component(LibTorch_LIBRARY_DIR ${LibTorch_CPU_LIBRARY} DIRECTORY)
  add_library(LibTorch::cpu INTERFACE IMPORTED)
  target_include_directories(LibTorch::cpu SYSTEM INTERFACE
    ${LibTorch_INCLUDE_DIR} ${LibTorch_INCLUDE_DIR}/torch/csrc/api/include)
  target_compile_definitions(LibTorch::cpu INTERFACE USE_DISTRIBUTED USE_C10D_GLOO)
  # libtorch_cpu registers its operators in static initialisers, so it must stay linked although nothing names it; its own
  # needs (libcudart, libcupti of the wheel) are found through its RPATH at run time, not at link time.
  target_link_libraries(LibTorch::cpu INTERFACE
    -Wl,--no-as-needed ${LibTorch_CPU_LIBRARY} ${LibTorch_C10_LIBRARY} -Wl,--as-needed -Wl,--allow-shlib-undefined)
  # The wheel's libraries are what a program was built against: found there at run time too.
  target_link_options(LibTorch::cpu INTERFACE -Wl,-rpath,${LibTorch_LIBRARY_DIR})
endif()

if(LibTorch_FOUND AND ROLLCALL_CUDA AND NOT TARGET LibTorch::cuda)
  find_library(LibTorch_CUDA_LIBRARY torch_cuda HINTS ${LibTorch_LIBRARY_DIR} REQUIRED NO_DEFAULT_PATH)
  find_library(LibTorch_C10_CUDA_LIBRARY c10_cuda HINTS ${LibTorch_LIBRARY_DIR} REQUIRED NO_DEFAULT_PATH)
  get_filename_component(_site_packages ${LibTorch_LIBRARY_DIR}/../.. ABSOLUTE)
  set(_cuda_hints /usr/local/cuda $ENV{CUDA_HOME} ${_site_packages}/nvidia/cu13)
  find_path(LibTorch_CUDA_INCLUDE_DIR cuda_runtime_api.h HINTS ${_cuda_hints} PATH_SUFFIXES include REQUIRED)
  find_path(LibTorch_NCCL_INCLUDE_DIR nccl.h HINTS ${_site_packages}/nvidia/nccl ${_cuda_hints} PATH_SUFFIXES include REQUIRED)
  # NCCL's structures cross into libtorch_cuda, which writes beyond the end of those of an older header: only the header of
  # the version that it was built with will do. A wheel's metadata say which; where there are none, the plugin looks at that
  # when it is opened (trainer/device/cuda/cuda.cpp).
  file(GLOB _metadata ${_site_packages}/torch-${LibTorch_VERSION}*.dist-info/METADATA)
  if(_metadata)
    list(GET _metadata 0 _metadata)
    file(STRINGS ${_metadata} _needs_nccl REGEX "^Requires-Dist: nvidia-nccl-cu[0-9]+==")
    string(REGEX MATCH "nvidia-nccl-cu[0-9]+==([0-9.]+)" _nccl_wheel "${_needs_nccl}")
    set(_nccl_needed ${CMAKE_MATCH_1})
    file(STRINGS ${LibTorch_NCCL_INCLUDE_DIR}/nccl.h _nccl_lines REGEX "#define NCCL_(MAJOR|MINOR|PATCH) ")
    string(REGEX MATCHALL "[0-9]+" _nccl_found "${_nccl_lines}")
    list(JOIN _nccl_found "." _nccl_found)
    if(_nccl_needed AND NOT _nccl_found VERSION_EQUAL _nccl_needed)
      message(FATAL_ERROR "rollcall: ${LibTorch_NCCL_INCLUDE_DIR}/nccl.h: is of NCCL ${_nccl_found}, and LibTorch ${LibTorch_VERSION} was built "
                          "with ${_nccl_needed}; try scripts/setup --cuda for that version, which installs ${_nccl_wheel}, or -DLibTorch_NCCL_INCLUDE_DIR=DIR")
    endif()
  endif()
  add_library(LibTorch::cuda INTERFACE IMPORTED)
  set(LibTorch_CUDA_COMPILE_OPTIONS "SHELL:-isystem \"${LibTorch_NCCL_INCLUDE_DIR}\"" "SHELL:-isystem \"${LibTorch_CUDA_INCLUDE_DIR}\"")
  target_link_libraries(LibTorch::cuda INTERFACE
    LibTorch::cpu -Wl,--no-as-needed ${LibTorch_CUDA_LIBRARY} ${LibTorch_C10_CUDA_LIBRARY} -Wl,--as-needed)
endif()
mark_as_advanced(LibTorch_INCLUDE_DIR LibTorch_CPU_LIBRARY LibTorch_C10_LIBRARY)
