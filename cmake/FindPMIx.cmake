# FindPMIx: PMIx's headers. Offers PMIx::headers only: the library is opened at run time where it exists
# (runtime/launchers/pmix_client.cpp), so that one binary also runs where PMIx is absent.
find_path(PMIx_INCLUDE_DIR pmix.h HINTS ${PMIx_ROOT} $ENV{PMIx_ROOT}
          PATH_SUFFIXES include ${CMAKE_LIBRARY_ARCHITECTURE}/pmix2/include lib/${CMAKE_LIBRARY_ARCHITECTURE}/pmix2/include)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(PMIx REQUIRED_VARS PMIx_INCLUDE_DIR)

if(PMIx_FOUND AND NOT TARGET PMIx::headers)
  add_library(PMIx::headers INTERFACE IMPORTED)
  target_include_directories(PMIx::headers SYSTEM INTERFACE ${PMIx_INCLUDE_DIR})
  target_compile_definitions(PMIx::headers INTERFACE ROLLCALL_HAVE_PMIX)
endif()
mark_as_advanced(PMIx_INCLUDE_DIR)
