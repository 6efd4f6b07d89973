# FindUCX: the UCP library of UCX. Offers UCX::ucp.
find_path(UCX_INCLUDE_DIR ucp/api/ucp.h HINTS ${UCX_ROOT} $ENV{UCX_ROOT} PATH_SUFFIXES include)
find_library(UCX_UCP_LIBRARY ucp HINTS ${UCX_ROOT} $ENV{UCX_ROOT} PATH_SUFFIXES lib)
find_library(UCX_UCS_LIBRARY ucs HINTS ${UCX_ROOT} $ENV{UCX_ROOT} PATH_SUFFIXES lib)

if(UCX_INCLUDE_DIR AND EXISTS ${UCX_INCLUDE_DIR}/ucp/api/ucp_version.h)
  file(STRINGS ${UCX_INCLUDE_DIR}/ucp/api/ucp_version.h _lines REGEX "#define UCP_API_(MAJOR|MINOR)")
  string(REGEX REPLACE ".*MAJOR +([0-9]+).*MINOR +([0-9]+).*" "\\1.\\2" UCX_VERSION "${_lines}")
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(UCX REQUIRED_VARS UCX_UCP_LIBRARY UCX_UCS_LIBRARY UCX_INCLUDE_DIR VERSION_VAR UCX_VERSION)

if(UCX_FOUND AND NOT TARGET UCX::ucp)
  add_library(UCX::ucp INTERFACE IMPORTED)
  target_include_directories(UCX::ucp SYSTEM INTERFACE ${UCX_INCLUDE_DIR})
  target_link_libraries(UCX::ucp INTERFACE ${UCX_UCP_LIBRARY} ${UCX_UCS_LIBRARY})
endif()
mark_as_advanced(UCX_INCLUDE_DIR UCX_UCP_LIBRARY UCX_UCS_LIBRARY)
