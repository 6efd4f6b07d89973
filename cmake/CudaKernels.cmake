# The project's own CUDA kernels, compiled by nvcc where it is: without it the plugin lacks them. nvcc is called as a command:
# CMake's own support of CUDA wants a whole toolkit, of which the compiler alone is enough here.
find_program(ROLLCALL_NVCC nvcc HINTS $ENV{CUDA_HOME}/bin PATHS /usr/local/cuda/bin)
if(ROLLCALL_NVCC)
  execute_process(COMMAND ${ROLLCALL_NVCC} --version OUTPUT_VARIABLE nvcc_says ERROR_QUIET)
  string(REGEX MATCH "release ([0-9.]+)" nvcc_says "${nvcc_says}")
  set(nvcc_version ${CMAKE_MATCH_1})
endif()

# What a kernel is compiled for: A100, H100, B200, and what comes after them, for which the driver compiles it (PTX).
set(ROLLCALL_CUDA_ARCHITECTURES 80 90 100 CACHE STRING "Compute capabilities that kernels are compiled for, as in 80 90; PTX of the last one")

# No products and sums that one rounding makes one where the code does not say so: the same bits as on a CPU
# (trainer/device/cuda/kernels/arithmetic.h). No run time of CUDA is linked: it is the one that LibTorch has loaded. The figures
# of each kernel are for scripts/cuda-check.
set(nvcc_options -std=c++20 -O3 -fmad=false --cudart=none -Werror=all-warnings -Xcompiler=-fPIC,-fvisibility=hidden,-Wall,-Wextra
    -Xptxas=-v)

# cuda_kernels(TARGET FOLDER): compiles FOLDER/*.cu into it, and defines ROLLCALL_CUDA_KERNELS
function(cuda_kernels target folder)
  if(NOT ROLLCALL_NVCC OR nvcc_version VERSION_LESS 13)
    message(STATUS "rollcall: no nvcc of CUDA 13 or newer (${ROLLCALL_NVCC} ${nvcc_version}): ${target} is built without its own kernels")
    return()
  endif()
  set(options ${nvcc_options} -ccbin=${CMAKE_CXX_COMPILER} -I${PROJECT_SOURCE_DIR})
  foreach(architecture ${ROLLCALL_CUDA_ARCHITECTURES})
    list(APPEND options -gencode=arch=compute_${architecture},code=sm_${architecture})
  endforeach()
  list(GET ROLLCALL_CUDA_ARCHITECTURES -1 newest)
  list(APPEND options -gencode=arch=compute_${newest},code=compute_${newest})
  target_compile_definitions(${target} PRIVATE ROLLCALL_CUDA_KERNELS)
  file(GLOB sources CONFIGURE_DEPENDS ${folder}/*.cu)
  foreach(source ${sources})
    get_filename_component(name ${source} NAME_WE)
    set(object ${CMAKE_CURRENT_BINARY_DIR}/kernels/${name}.o)
    add_custom_command(OUTPUT ${object} DEPFILE ${object}.d
      COMMAND ${ROLLCALL_NVCC} ${options} -MD -MF ${object}.d -c ${source} -o ${object}
      DEPENDS ${source} COMMENT "Compiling ${name}.cu" VERBATIM)
    target_sources(${target} PRIVATE ${object})
  endforeach()
endfunction()
