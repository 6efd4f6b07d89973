# Toolchain: zig's C and C++ compiler (scripts/setup --packaging). What it makes runs with glibc 2.28 and newer, and has libc++ linked in.
#   ROLLCALL_ZIG       the program zig
#   ROLLCALL_SYSROOT   a folder with the libraries that are linked in, without glibc, whose headers zig has
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR x86_64)
set(CMAKE_LIBRARY_ARCHITECTURE x86_64-linux-gnu)
set(CMAKE_C_COMPILER ${ROLLCALL_ZIG} cc)
set(CMAKE_CXX_COMPILER ${ROLLCALL_ZIG} c++)
foreach(language C CXX)
  set(CMAKE_${language}_COMPILER_TARGET x86_64-linux-gnu.2.28)
  # No path of this machine in texts of assertions.
  set(CMAKE_${language}_FLAGS_INIT -fmacro-prefix-map=${ROLLCALL_SYSROOT}=)
endforeach()
set(CMAKE_EXE_LINKER_FLAGS_INIT "-pie -s -Wl,-z,relro,-z,now")
# zig takes -O2 for a release without assertions, and writes debug information unless told not to.
foreach(language C CXX)
  set(CMAKE_${language}_FLAGS_RELEASE "-O2 -UNDEBUG -g0" CACHE STRING "")
endforeach()

set(CMAKE_FIND_ROOT_PATH ${ROLLCALL_SYSROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
foreach(kind LIBRARY INCLUDE PACKAGE)
  set(CMAKE_FIND_ROOT_PATH_MODE_${kind} ONLY)
endforeach()
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${ROLLCALL_SYSROOT})
set(ENV{PKG_CONFIG_LIBDIR} ${ROLLCALL_SYSROOT}/usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/pkgconfig)
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES ROLLCALL_ZIG ROLLCALL_SYSROOT)
# libc++ is made once, as it is linked in.
set(CMAKE_TRY_COMPILE_CONFIGURATION Release)
