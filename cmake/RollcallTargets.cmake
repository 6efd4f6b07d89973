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
  else()  # a header that another build folder precompiled is good where the same text has another time
    add_compile_options("SHELL:-Xclang -fno-pch-timestamp")
  endif()
endif()

if(ROLLCALL_SANITIZER)
  add_compile_options(-fsanitize=${ROLLCALL_SANITIZER} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${ROLLCALL_SANITIZER})
  # g++ defines these by itself, clang 14 does not.
  if(ROLLCALL_SANITIZER MATCHES "address")
    add_compile_definitions(__SANITIZE_ADDRESS__=1)
  elseif(ROLLCALL_SANITIZER MATCHES "thread")
    add_compile_definitions(__SANITIZE_THREAD__=1)
  endif()
else()
  # Not plugins: they may name what a node lacks and they do not call there.
  add_link_options($<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:-Wl,-z,relro,-z,now,-z,noexecstack>)
endif()

add_library(rollcall_options INTERFACE)
target_compile_options(rollcall_options INTERFACE -Wall -Wextra -Wconversion -Wsign-conversion -Wshadow -Wnon-virtual-dtor -Werror)
# GCC 12 sees overlapping copies in std::string's operator+ that are not there (GCC bug 105329). It also
# warns of members that a designated initialiser leaves at their defaults, as newer clangs do.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(rollcall_options INTERFACE -Wno-restrict -Wno-missing-field-initializers)
elseif(CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 19)
  target_compile_options(rollcall_options INTERFACE -Wno-missing-designated-field-initializers)
endif()
target_include_directories(rollcall_options INTERFACE ${PROJECT_SOURCE_DIR})

# fmt of the system, compiled into the programs, which so need no library of it where they run; its names stay theirs.
# Its target also has the precompiled header of the layers without LibTorch.
add_library(rollcall_fmt STATIC ${PROJECT_SOURCE_DIR}/cmake/fmt_library.cpp)
target_include_directories(rollcall_fmt SYSTEM PUBLIC
  $<TARGET_PROPERTY:fmt::fmt-header-only,INTERFACE_INCLUDE_DIRECTORIES>)
target_link_libraries(rollcall_options INTERFACE rollcall_fmt)
target_precompile_headers(rollcall_fmt PRIVATE ${PROJECT_SOURCE_DIR}/cmake/standard_library.h)
target_link_libraries(rollcall_fmt PRIVATE nlohmann_json::nlohmann_json)

# compile_together(TARGET): ROLLCALL_UNITY_FILES of its files at a time
function(compile_together target)
  if(ROLLCALL_UNITY_FILES GREATER 1)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${ROLLCALL_UNITY_FILES})
    # A class with members of its file's anonymous namespace is taken for one of a header.
    target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
  endif()
endfunction()

# rollcall_layer(NAME FOLDER [PRECOMPILED target] [DEPENDS libraries...]): static library rollcall_NAME from FOLDER/*.cpp, with the
# precompiled header of `target` (rollcall_fmt)
function(rollcall_layer name folder)
  cmake_parse_arguments(ARG "" "PRECOMPILED" "DEPENDS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${folder}/*.cpp)
  list(FILTER sources EXCLUDE REGEX "/main\\.cpp$")
  if(sources)
    add_library(rollcall_${name} STATIC ${sources})
    target_link_libraries(rollcall_${name} PUBLIC rollcall_options ${ARG_DEPENDS})
    compile_together(rollcall_${name})
    if(NOT ARG_PRECOMPILED)
      set(ARG_PRECOMPILED rollcall_fmt)
    endif()
    target_precompile_headers(rollcall_${name} REUSE_FROM ${ARG_PRECOMPILED})
  else()
    add_library(rollcall_${name} INTERFACE)
    target_link_libraries(rollcall_${name} INTERFACE rollcall_options ${ARG_DEPENDS})
  endif()
endfunction()

# The compiler of hot loops, which were written for g++ and measured with it, where clang compiles the rest; OFF: the same as of the rest.
find_program(ROLLCALL_LOOPS_COMPILER g++)
if(ROLLCALL_LOOPS_COMPILER MATCHES "NOTFOUND$")
  message(FATAL_ERROR "rollcall: g++: is not found, which compiles hot loops; try installing it, or -DROLLCALL_LOOPS_COMPILER=OFF, which makes them slower")
endif()

# compile_loops(TARGET [OPTIONS option...] FILES file...): these of its files
function(compile_loops target)
  cmake_parse_arguments(ARG "" "" "OPTIONS;FILES" ${ARGN})
  if(NOT ROLLCALL_LOOPS_COMPILER OR ROLLCALL_SANITIZER OR CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
      # g++'s hints, without which these are slower.
      list(APPEND ARG_OPTIONS -Wno-pass-failed -Wno-unknown-pragmas -Wno-ignored-attributes)
    endif()
    set_source_files_properties(${ARG_FILES} TARGET_DIRECTORY ${target} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON
      SKIP_PRECOMPILE_HEADERS ON COMPILE_OPTIONS "${ARG_OPTIONS}")
    return()
  endif()
  string(TOUPPER "${CMAKE_BUILD_TYPE}" type)
  separate_arguments(options UNIX_COMMAND "${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${type}}")
  list(APPEND options -std=c++20 ${file_names} -fPIC -fvisibility=hidden -fvisibility-inlines-hidden
    -Wall -Wextra -Wconversion -Wsign-conversion -Wshadow -Werror ${ARG_OPTIONS})
  set(definitions $<TARGET_PROPERTY:${target},COMPILE_DEFINITIONS>)
  set_source_files_properties(${ARG_FILES} TARGET_DIRECTORY ${target} PROPERTIES HEADER_FILE_ONLY ON)
  foreach(file ${ARG_FILES})
    get_filename_component(name ${file} NAME)
    set(object ${CMAKE_CURRENT_BINARY_DIR}/loops/${name}.o)
    add_custom_command(OUTPUT ${object} DEPFILE ${object}.d
      COMMAND ${CMAKE_CXX_COMPILER_LAUNCHER} ${ROLLCALL_LOOPS_COMPILER} ${options}
              "$<$<BOOL:${definitions}>:-D$<JOIN:${definitions},;-D>>" "-I$<JOIN:$<TARGET_PROPERTY:${target},INCLUDE_DIRECTORIES>,;-I>" -MD -MF ${object}.d -c ${file} -o ${object}
      DEPENDS ${file} COMMENT "Compiling ${name} by g++" COMMAND_EXPAND_LISTS VERBATIM)
    target_sources(${target} PRIVATE ${object})
  endforeach()
endfunction()

# use_precompiled_headers(PROGRAM TARGET): those of TARGET, which were made with -fPIC, as libraries need it; a program's own -fPIE
# refuses them.
function(use_precompiled_headers program target)
  set_target_properties(${program} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${program} PRIVATE -fPIC)
  target_precompile_headers(${program} REUSE_FROM ${target})
endfunction()

# hash_border(RESULT HEADER...): sums up what crosses the border between the programs and a plugin: those of another build
# do not fit together.
function(hash_border result)
  file(GLOB headers CONFIGURE_DEPENDS ${ARGN} ${PROJECT_SOURCE_DIR}/runtime/base/result.h
       ${PROJECT_SOURCE_DIR}/runtime/contract/exit_codes.h)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${headers})
  set(border ${PROJECT_VERSION})
  foreach(header ${headers})
    file(SHA256 ${header} hash)
    string(SHA256 border "${border}${hash}")
  endforeach()
  set(${result} ${border} PARENT_SCOPE)
endfunction()

# The folder of plugins has the same place below the build folder as below an installation.
set(plugin_folder ${CMAKE_INSTALL_LIBDIR}/rollcall)

# rollcall_plugin(NAME BORDER SOURCE...): rollcall_NAME.so, which programs open at run time
function(rollcall_plugin name border)
  add_library(rollcall_${name} MODULE ${ARGN})
  set_target_properties(rollcall_${name} PROPERTIES PREFIX "" LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/${plugin_folder})
  target_compile_definitions(rollcall_${name} PRIVATE ROLLCALL_PLUGIN_BUILD="${border}")
endfunction()
