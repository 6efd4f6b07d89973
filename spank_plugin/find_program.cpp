#include "spank_plugin/find_program.h"

#include <fcntl.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

namespace rollcall::spank {
namespace {

constexpr int kLevels = 4;  // PREFIX/lib/ARCHITECTURE/rollcall/spank_rollcall.so

/// statx(2): its name in libc is older than that of stat(2) which the compiler would take here (2.33).
bool look_at(const char* path, struct statx& status) {
  return ::statx(AT_FDCWD, path, 0, STATX_UID | STATX_GID | STATX_MODE, &status) == 0;
}

/// Why `path` is not believed; null: it is.
const char* objection(const char* path, uid_t owner) {
  struct statx status {};
  if (!look_at(path, status)) {
    return std::strerror(errno);
  }
  if (status.stx_uid != 0 && status.stx_uid != owner) {
    return "belongs neither to root nor to the owner of the plugin";
  }
  // In a sticky folder (/tmp) nobody replaces what is another's.
  const bool is_sticky = S_ISDIR(status.stx_mode) && (status.stx_mode & S_ISVTX) != 0;
  // A group that is numbered as the owner is that user's own (useradd's default, with umask 002).
  const unsigned others = status.stx_gid == status.stx_uid ? S_IWOTH : S_IWOTH | S_IWGRP;
  return !is_sticky && (status.stx_mode & others) != 0 ? "others may write there" : nullptr;
}

/// Judges the program and each folder above it.
Failure judge(const char* program, uid_t owner) {
  char path[PATH_MAX];
  std::snprintf(path, sizeof path, "%s", program);
  for (;;) {
    if (const char* const reason = objection(path[0] == '\0' ? "/" : path, owner); reason != nullptr) {
      return failed(ExitCode::Configuration, "rollcall: --ddp: %s: is not run: %s: %s; try asking your administrator",
                    program, path[0] == '\0' ? "/" : path, reason);
    }
    char* const slash = std::strrchr(path, '/');
    if (slash == nullptr) {
      return {};
    }
    *slash = '\0';
  }
}

/// `path` without links, where a program lies there.
bool is_program(const char* candidate, char (&path)[PATH_MAX]) {
  struct statx status {};
  return ::realpath(candidate, path) != nullptr && look_at(path, status) && S_ISREG(status.stx_mode);
}

bool find_above(const char* plugin, char (&path)[PATH_MAX]) {
  char folder[PATH_MAX];
  std::snprintf(folder, sizeof folder, "%s", plugin);
  for (int level = 0; level <= kLevels; ++level) {
    char* const slash = std::strrchr(folder, '/');
    if (slash == nullptr) {
      return false;
    }
    *slash = '\0';
    for (const char* const place : {"bin/rollcall", "runtime/rollcall"}) {
      char candidate[PATH_MAX + 32];
      std::snprintf(candidate, sizeof candidate, "%s/%s", folder, place);
      if (is_program(candidate, path)) {
        return true;
      }
    }
  }
  return false;
}

}  // namespace

OwnFile::OwnFile() {
  ::dl_iterate_phdr(
      [](dl_phdr_info* object, std::size_t, void* self) {
        const auto here = reinterpret_cast<std::uintptr_t>(&find_program);
        for (int i = 0; i < object->dlpi_phnum; ++i) {
          const ElfW(Phdr)& part = object->dlpi_phdr[i];
          const std::uintptr_t begin = object->dlpi_addr + part.p_vaddr;
          if (part.p_type == PT_LOAD && here >= begin && here - begin < part.p_memsz) {
            return ::realpath(object->dlpi_name, static_cast<OwnFile*>(self)->path) != nullptr ? 1 : -1;
          }
        }
        return 0;
      },
      this);
}

Failure failed(ExitCode code, const char* format, ...) {
  Failure failure;
  failure.exit_code = to_int(code);
  std::va_list values;
  va_start(values, format);
  std::vsnprintf(failure.text, sizeof failure.text, format, values);
  va_end(values);
  return failure;
}

Failure find_program(const char* named, char (&path)[PATH_MAX]) {
  const OwnFile own;
  struct statx status {};
  const uid_t owner = look_at(own.path, status) ? status.stx_uid : 0;
  if (named != nullptr && (named[0] != '/' || !is_program(named, path))) {
    return failed(ExitCode::NotFound,
                  "rollcall: --ddp: %s: is no program, by rollcall= of plugstack.conf; try asking your administrator",
                  named);
  }
  if (named == nullptr && !find_above(own.path, path)) {
    return failed(ExitCode::NotFound,
                  "rollcall: --ddp: %s: there is no bin/rollcall above it, which the plugin runs; try asking your "
                  "administrator for the whole installation, or for rollcall=PATH in plugstack.conf",
                  own.path);
  }
  return judge(path, owner);
}

}  // namespace rollcall::spank
