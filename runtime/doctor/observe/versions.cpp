#include "runtime/doctor/observe/versions.h"

#include <dlfcn.h>
#include <gnu/libc-version.h>
#include <sys/utsname.h>

#include <string>

#include "runtime/base/text.h"
#include "runtime/doctor/observe/child.h"

namespace rollcall::doctor {
namespace {

constexpr std::chrono::seconds kPatience{5};

std::string slurm_version() {
  const Result<std::string> text = output_of({"scontrol", "--version"}, kPatience);
  constexpr std::string_view kProduct = "slurm";
  std::string_view words = text ? trim(*text) : std::string_view();
  words = words.substr(0, words.find('\n'));
  // "slurm 24.11.5", Debian's "slurm-wlm 22.05.8"
  return words.starts_with(kProduct) ? std::string(words.substr(words.rfind(' ') + 1)) : "";
}

/// Of the library's own words, "OpenPMIx 4.2.2 (PMIx Standard: ...)", only the number is kept.
std::string pmix_version() {
  void* const library = dlopen("libpmix.so.2", RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) {
    return "";
  }
  using GetVersion = const char* (*)();
  const auto get_version = reinterpret_cast<GetVersion>(dlsym(library, "PMIx_Get_version"));
  const std::string text = get_version == nullptr ? "" : get_version();
  const std::size_t begin = text.find_first_of("0123456789");
  return begin == std::string::npos ? text : text.substr(begin, text.find_first_of(" ,(", begin) - begin);
}

}  // namespace

Versions observe_versions() {
  Versions versions;
  versions.slurm = slurm_version();
  versions.pmix = pmix_version();
  versions.glibc = gnu_get_libc_version();
  utsname system{};
  if (uname(&system) == 0) {
    versions.kernel = system.release;
  }
  return versions;
}

std::string slurms_address_of(const std::string& host) {
  const Result<std::string> text = output_of({"scontrol", "--oneliner", "show", "node", host}, kPatience);
  constexpr std::string_view kKey = "NodeAddr=";
  const std::size_t begin = text ? text->find(kKey) : std::string::npos;
  if (begin == std::string::npos) {
    return "";
  }
  const std::size_t value = begin + kKey.size();
  return text->substr(value, text->find_first_of(" \n", value) - value);
}

}  // namespace rollcall::doctor
