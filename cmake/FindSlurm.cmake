# FindSlurm: Slurm's headers, for the SPANK plugin. Offers Slurm::spank (headers only: a plugin's symbols are resolved by
# the Slurm program that loads it) and Slurm_RELEASE (24.11). Slurm_ROOT chooses another version than the system's.
# Slurm_LIBRARY_VERSION is that of libslurm's soname, for packages; empty where only the headers are there.
find_path(Slurm_INCLUDE_DIR slurm/spank.h HINTS ${Slurm_ROOT} $ENV{Slurm_ROOT} PATH_SUFFIXES include)

if(Slurm_INCLUDE_DIR AND EXISTS ${Slurm_INCLUDE_DIR}/slurm/slurm_version.h)
  file(STRINGS ${Slurm_INCLUDE_DIR}/slurm/slurm_version.h _number REGEX "#define SLURM_VERSION_NUMBER 0x[0-9a-fA-F]+")
  string(REGEX MATCH "0x[0-9a-fA-F]+" _number "${_number}")
  math(EXPR _major "(${_number} >> 16) & 0xff")
  math(EXPR _minor "(${_number} >> 8) & 0xff")
  math(EXPR _micro "${_number} & 0xff")
  string(LENGTH "${_minor}" _digits)
  if(_digits EQUAL 1)
    set(_minor "0${_minor}")
  endif()
  set(Slurm_RELEASE "${_major}.${_minor}")
  set(Slurm_VERSION "${Slurm_RELEASE}.${_micro}")
  find_library(Slurm_LIBRARY slurm HINTS ${Slurm_INCLUDE_DIR}/.. PATH_SUFFIXES lib64 lib/${CMAKE_LIBRARY_ARCHITECTURE} lib NO_DEFAULT_PATH)
  if(Slurm_LIBRARY AND IS_SYMLINK ${Slurm_LIBRARY})
    file(READ_SYMLINK ${Slurm_LIBRARY} _file)
    string(REGEX REPLACE ".*\\.so\\.([0-9]+).*" "\\1" Slurm_LIBRARY_VERSION ${_file})
  endif()
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Slurm REQUIRED_VARS Slurm_INCLUDE_DIR VERSION_VAR Slurm_VERSION)

if(Slurm_FOUND AND NOT TARGET Slurm::spank)
  add_library(Slurm::spank INTERFACE IMPORTED)
  target_include_directories(Slurm::spank SYSTEM INTERFACE ${Slurm_INCLUDE_DIR})
endif()
mark_as_advanced(Slurm_INCLUDE_DIR Slurm_LIBRARY)
