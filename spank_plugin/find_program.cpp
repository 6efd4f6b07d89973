#include "spank_plugin/program.h"

#include <fcntl.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

namespace rollcall::spank {
namespace {

constexpr int kLevels = 4;  // PREFIX/lib/ARCHITECTURE/rollcall/slurm-22.05/spank_rollcall.so

/// Calls statx(2), whose symbol in libc is older than the one of stat(2) that the compiler would use (2.33).
bool look_at(const char* path, struct statx& status) {
  return ::statx(AT_FDCWD, path, 0, STATX_UID | STATX_GID | STATX_MODE, &status) == 0;
}

/// The owners whose files are trusted. A config_owner= that is neither a number nor "any" adds no owner; the program
/// reports it.
class TrustedOwners {
 public:
  TrustedOwners(const char* plugin, const char* config_owner) : anybody_(std::strcmp(config_owner, "any") == 0) {
    struct statx status {};
    for (const char* const path : {plugin, "/"}) {
      if (look_at(path, status)) {
        users_[count_++] = status.stx_uid;
      }
    }
    char* rest = nullptr;
    const unsigned long user = std::strtoul(config_owner, &rest, 10);
    if (rest != config_owner && *rest == '\0') {
      users_[count_++] = static_cast<uid_t>(user);
    }
  }

  /// Checks `path`, which is `program` or a folder above it.
  [[nodiscard]] Failure judge(const char* path, const char* program) const {
    struct statx status {};
    if (anybody_) {
      return {};
    }
    if (!look_at(path, status)) {
      return failed(ExitCode::Configuration,
                    "rollcall: --ddp: %s: is not trusted: %s: %s; try asking your administrator", program, path,
                    std::strerror(errno));
    }
    if (!owned(status.stx_uid)) {
      return failed(
          ExitCode::Configuration,
          "rollcall: --ddp: %s: is not trusted: user %u owns %s; try asking your administrator for chown root %s or "
          "config_owner=%u in plugstack.conf",
          program, status.stx_uid, path, path, status.stx_uid);
    }
    if (const char* const bit = open_bit(status); bit != nullptr) {
      return failed(ExitCode::Configuration,
                    "rollcall: --ddp: %s: is not trusted: others may write to %s; try asking your administrator for "
                    "chmod %s %s or config_owner=any in plugstack.conf",
                    program, path, bit, path);
    }
    return {};
  }

 private:
  [[nodiscard]] bool owned(uid_t owner) const {
    return owner == 0 || std::find(users_, users_ + count_, owner) != users_ + count_;
  }

  /// Returns the mode for chmod(1) that forbids others to write to the file; null where they may not.
  static const char* open_bit(const struct statx& status) {
    if (S_ISDIR(status.stx_mode) && (status.stx_mode & S_ISVTX) != 0) {
      return nullptr;  // as in /tmp, where users cannot replace each other's files
    }
    if ((status.stx_mode & S_IWOTH) != 0) {
      return "o-w";
    }
    // Root's group is allowed, and the owner's private group, which has the user's number (useradd(8), umask 002).
    const bool is_others = status.stx_gid != 0 && status.stx_gid != status.stx_uid;
    return is_others && (status.stx_mode & S_IWGRP) != 0 ? "g-w" : nullptr;
  }

  bool anybody_;
  uid_t users_[3]{};
  std::size_t count_ = 0;
};

/// Checks the program and each folder above it.
Failure judge(const char* program, const TrustedOwners& trusted) {
  char path[PATH_MAX];
  std::snprintf(path, sizeof path, "%s", program);
  for (;;) {
    if (const Failure failure = trusted.judge(path[0] == '\0' ? "/" : path, program); failure) {
      return failure;
    }
    char* const slash = std::strrchr(path, '/');
    if (slash == nullptr) {
      return {};
    }
    *slash = '\0';
  }
}

/// Resolves links in `candidate`, and returns whether it is a regular file.
bool is_program(const char* candidate, char (&path)[PATH_MAX]) {
  struct statx status {};
  return ::realpath(candidate, path) != nullptr && look_at(path, status) && S_ISREG(status.stx_mode);
}

bool find_installed(const char* plugin, char (&path)[PATH_MAX]) {
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

Failure find_program(const Site& site, char (&path)[PATH_MAX]) {
  const OwnFile own;
  const char* const named = site.program;
  if (named != nullptr && (named[0] != '/' || !is_program(named, path))) {
    return failed(
        ExitCode::NotFound,
        "rollcall: --ddp: %s: is not a program that can be executed (rollcall= in plugstack.conf); try asking "
        "your administrator",
        named);
  }
  if (named == nullptr && !find_installed(own.path, path)) {
    return failed(ExitCode::NotFound,
                  "rollcall: --ddp: %s: has no bin/rollcall in a folder above it, which it needs; try asking your "
                  "administrator for the whole installation, or setting rollcall=PATH in plugstack.conf",
                  own.path);
  }
  return judge(path, TrustedOwners(own.path, site.config_owner != nullptr ? site.config_owner : ""));
}

}  // namespace rollcall::spank
