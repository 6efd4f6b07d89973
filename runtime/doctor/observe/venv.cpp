#include "runtime/doctor/observe/venv.h"

#include <unistd.h>

#include <cerrno>

#include "runtime/base/error.h"
#include "runtime/base/text.h"
#include "runtime/doctor/observe/child.h"

namespace rollcall::doctor {

VenvFacts observe_venv(const std::string& path, std::chrono::duration<double> patience) {
  VenvFacts facts;
  facts.path = path;
  const std::string python = path + "/bin/python";
  if (access(python.c_str(), X_OK) != 0) {
    facts.error = "bin/python: " + errno_text(errno);
    return facts;
  }
  const Result<std::string> version =
      output_of({python, "-I", "-c", "import platform; print(platform.python_version())"}, patience);
  if (version) {
    facts.version = trim(*version);
  } else {
    facts.error = "bin/python " + version.error().reason;
  }
  return facts;
}

}  // namespace rollcall::doctor
