# How every target of the project is made: one library per layer (a folder), strict warnings, the chosen sanitizers.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)

find_program(ROLLCALL_CCACHE ccache)
if(ROLLCALL_CCACHE)
  # The sloppiness is what ccache's manual asks for with precompiled headers; it goes with -fpch-preprocess.
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      ${ROLLCALL_CCACHE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_compile_options(-fpch-preprocess)
  endif()
endif()

add_library(rollcall_options INTERFACE)
target_compile_options(rollcall_options INTERFACE -Wall -Wextra -Wconversion -Wshadow -Wnon-virtual-dtor -Werror)
# GCC 12 sees overlapping copies in std::string's operator+ that are not there (GCC bug 105329).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(rollcall_options INTERFACE -Wno-restrict)
endif()
target_include_directories(rollcall_options INTERFACE ${PROJECT_SOURCE_DIR})
# Header-only fmt: LibTorch's wheel ships another version of fmt, and only inline code of both can live in one program.
target_compile_definitions(rollcall_options INTERFACE FMT_HEADER_ONLY)

if(ROLLCALL_SANITIZER)
  add_compile_options(-fsanitize=${ROLLCALL_SANITIZER} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${ROLLCALL_SANITIZER})
endif()

# rollcall_layer(NAME FOLDER [DEPENDS libraries...]): static library rollcall_NAME from FOLDER/*.cpp
function(rollcall_layer name folder)
  cmake_parse_arguments(ARG "" "" "DEPENDS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${folder}/*.cpp)
  list(FILTER sources EXCLUDE REGEX "/main\\.cpp$")
  if(sources)
    add_library(rollcall_${name} STATIC ${sources})
    target_link_libraries(rollcall_${name} PUBLIC rollcall_options ${ARG_DEPENDS})
  else()
    add_library(rollcall_${name} INTERFACE)
    target_link_libraries(rollcall_${name} INTERFACE rollcall_options ${ARG_DEPENDS})
  endif()
endfunction()

# The precompiled header was made with -fPIC, as libraries need it; g++ refuses it for a program's -fPIE.
function(use_torch_pch name)
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${name} PRIVATE -fPIC)
  target_precompile_headers(${name} REUSE_FROM rollcall_torch_pch)
endfunction()
