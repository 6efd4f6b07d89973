# deb and rpm packages of what is built: `cpack -G DEB` or `cpack -G RPM` in the build folder (docs/administrator/packages_deb_rpm.md).
# Programs and SPANK plugin are those of the build: nothing is compiled, and the packages fit its system.

set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_PACKAGE_VENDOR rollcall)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "")  # each package has its own
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/packages)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/packaging/stage.cmake)
set(CPACK_ROLLCALL_SOURCE_DIR ${PROJECT_SOURCE_DIR})
set(CPACK_ROLLCALL_LIBDIR ${CMAKE_INSTALL_LIBDIR})
set(CPACK_ROLLCALL_RELEASE_DATE ${ROLLCALL_RELEASE_DATE})

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)

set(CPACK_RPM_COMPONENT_INSTALL ON)
set(CPACK_RPM_FILE_NAME RPM-DEFAULT)
set(CPACK_RPM_PACKAGE_LICENSE Apache-2.0)
set(CPACK_RPM_PACKAGE_GROUP System/Cluster)
set(CPACK_RPM_COMPRESSION_TYPE xz)
set(CPACK_RPM_PACKAGE_RELOCATABLE OFF)
set(CPACK_RPM_EXCLUDE_FROM_AUTO_FILELIST_ADDITION /usr/share/man /usr/share/man/man1 /usr/share/man/man8 /usr/share/licenses)
# Two builds of the same files are the same bytes; stripped is all already. Libraries that lie beside the trainer are its own.
set(CPACK_RPM_SPEC_INSTALL_POST /bin/true)
set(CPACK_RPM_SPEC_MORE_DEFINE "%define _buildhost rollcall
%define use_source_date_epoch_as_buildtime 1
%define clamp_mtime_to_source_date_epoch 1
%define _build_id_links none
%define __provides_exclude_from ^/usr/lib/rollcall/
%define __requires_exclude -[0-9a-f]{8}[.]so")

# rollcall_package(COMPONENT NAME SUMMARY DESCRIPTION)
function(rollcall_package component name summary description)
  string(TOUPPER ${component} key)
  set(CPACK_DEBIAN_${key}_PACKAGE_NAME ${name} PARENT_SCOPE)
  string(REGEX REPLACE "^L" "l" phrase ${summary})  # Debian's summaries are no sentences
  set(CPACK_DEBIAN_${key}_DESCRIPTION "${phrase}\n${description}" PARENT_SCOPE)
  set(CPACK_RPM_${key}_PACKAGE_NAME ${name} PARENT_SCOPE)
  set(CPACK_RPM_${key}_PACKAGE_SUMMARY "${summary}" PARENT_SCOPE)
  set(CPACK_RPM_${key}_PACKAGE_DESCRIPTION "${description}" PARENT_SCOPE)
  set(CPACK_COMPONENTS_ALL ${CPACK_COMPONENTS_ALL} ${component} PARENT_SCOPE)
endfunction()
set(same_version "= ${PROJECT_VERSION}-1")

rollcall_package(launch rollcall "Launcher of distributed training for Slurm clusters"
  "Sets up the rendezvous of PyTorch, JAX and others in a Slurm job: which node\nis the master, which port is free, and which rank a process has. It checks\nnodes and network before a job starts.")
set(CPACK_DEBIAN_LAUNCH_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_LAUNCH_PACKAGE_SUGGESTS "rollcall-doc, slurm-client")

rollcall_package(doc rollcall-doc "Launcher of distributed training for Slurm clusters - documentation"
  "Pages for users, administrators and developers of rollcall, as Markdown:\ntutorials, settings, error codes, and how a site installs and secures it.")
set(CPACK_DEBIAN_DOC_PACKAGE_SECTION doc)
set(CPACK_DEBIAN_DOC_PACKAGE_ARCHITECTURE all)
set(CPACK_RPM_DOC_PACKAGE_ARCHITECTURE noarch)

if(ROLLCALL_TRAINER AND NOT ROLLCALL_CUDA)  # libraries for CUDA are gigabytes
  set(CPACK_COMPONENT_TRAINER_GROUP trainer)
  set(CPACK_COMPONENT_TOOLS_GROUP trainer)
  rollcall_package(trainer rollcall-trainer "Launcher of distributed training - trainer of image classifiers"
    "Trains ResNets on many nodes, by data parallelism or FSDP, and goes on when\nnodes fail. Tools pack data sets, look at checkpoints and measure\ncollectives. It has LibTorch for the CPU with it.")
  list(APPEND CPACK_COMPONENTS_ALL tools)
  set(CPACK_DEBIAN_TRAINER_PACKAGE_SHLIBDEPS ON)
  set(CPACK_DEBIAN_TRAINER_PACKAGE_RECOMMENDS rollcall)
  set(CPACK_RPM_TRAINER_PACKAGE_SUGGESTS rollcall)
endif()

# require_slurm(DEB RPM): what the packages of the plugin require of Slurm; nothing where no package owns its library (make install)
function(require_slurm deb rpm)
  get_filename_component(library ${Slurm_LIBRARY} REALPATH)
  execute_process(COMMAND dpkg-query -S ${library} OUTPUT_VARIABLE owner ERROR_QUIET RESULT_VARIABLE not_in_dpkg)
  execute_process(COMMAND rpm -qf ${library} OUTPUT_QUIET ERROR_QUIET RESULT_VARIABLE not_in_rpm)
  if(not_in_dpkg AND not_in_rpm)
    message(STATUS "rollcall: ${library}: is in no package: the package of the plugin will require no Slurm")
    return()
  endif()
  set(${rpm} ", libslurm.so.${Slurm_LIBRARY_VERSION}()(64bit)" PARENT_SCOPE)
  string(REGEX MATCH "^[^:]+" owner "${owner}")
  if(owner MATCHES "^libslurm")  # Debian's, whose name has the version of the library
    set(${deb} ", ${owner}" PARENT_SCOPE)
  elseif(owner STREQUAL "slurm-smd")  # whose version is Slurm's
    string(REGEX MATCH "(.*)[.]0*([0-9]+)$" _ ${Slurm_RELEASE})
    math(EXPR next "${CMAKE_MATCH_2} + 1")
    set(${deb} ", ${owner} (>= ${Slurm_RELEASE}), ${owner} (<< ${CMAKE_MATCH_1}.${next})" PARENT_SCOPE)
  elseif(owner)
    message(STATUS "rollcall: ${library}: is in ${owner}, whose versions may not be Slurm's: the package of the plugin will require no Slurm")
  endif()
endfunction()

if(Slurm_LIBRARY_VERSION)
  # SPANK's loader takes a plugin of its own Slurm only, and libslurm's soname changes with that. In Debian each plugin is a
  # package of its own, since such libraries lie beside each other. Where rpm updates Slurm, the release with the fitting
  # libslurm is taken along, as its name stays.
  string(REPLACE "." "" slurm "sl${Slurm_RELEASE}")
  require_slurm(slurm_for_deb slurm_for_rpm)
  rollcall_package(plugin rollcall-slurm-plugin-${slurm} "Launcher of distributed training - plugin for Slurm ${Slurm_VERSION}"
    "Gives srun, sbatch and salloc the option --ddp. It is off until an\nadministrator runs `rollcall install --site`.")
  set(CPACK_DEBIAN_PLUGIN_PACKAGE_SHLIBDEPS ON)
  set(CPACK_DEBIAN_PLUGIN_PACKAGE_DEPENDS "rollcall (${same_version})${slurm_for_deb}")
  set(CPACK_DEBIAN_PLUGIN_PACKAGE_SECTION admin)
  set(CPACK_RPM_PLUGIN_PACKAGE_NAME rollcall-slurm-plugin)
  # CPack has one release for all packages; the spec file's Name is read before its Release.
  set(CPACK_RPM_PACKAGE_RELEASE "1%{lua: if rpm.expand('%{name}') == 'rollcall-slurm-plugin' then print('.${slurm}') end}")
  set(CPACK_RPM_PLUGIN_PACKAGE_REQUIRES "rollcall ${same_version}${slurm_for_rpm}")
else()
  message(STATUS "rollcall: no libslurm.so beside Slurm's headers: no package of the plugin can be made")
endif()

include(CPack)
