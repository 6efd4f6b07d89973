#include "trainer/process_group/exceptions.h"

#include <c10/util/Exception.h>
#include <unistd.h>
#include <array>

namespace rollcall::process_group {
namespace {

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "?";
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace

std::string Speaker::text() const {
  return "rank " + std::to_string(rank) + " of " + std::to_string(world_size) + " on " + host_name();
}

Result<void> catch_exceptions(const Speaker& speaker, const std::string& setting, const std::string& what,
                              const std::string& action, const std::function<void()>& work) {
  std::string cause;
  try {
    work();
    return {};
  } catch (const c10::Error& error) {
    cause = error.what_without_backtrace();
  } catch (const std::exception& error) {
    cause = error.what();  // Gloo throws its own classes, derived from std::runtime_error
  }
  return fail(setting, speaker.text(), what + ": " + first_line(cause), action, ExitCode::Unavailable);
}

}  // namespace rollcall::process_group
