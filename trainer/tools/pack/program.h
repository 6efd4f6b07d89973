#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "runtime/base/environment.h"
#include "runtime/base/result.h"
#include "trainer/tools/pack/pack_tree.h"

namespace rollcall::pack {

/// `rollcall-pack`: `arguments` without the program's own name. SOURCE_DATE_EPOCH in the environment takes the place of
/// the clock, for files that are equal to the last bit (reproducible-builds.org). Progress goes to stderr. Gives the
/// exit code; nothing is thrown.
int run(const std::vector<std::string>& arguments, const Environment& environment, std::ostream& out,
        std::ostream& err) noexcept;

enum class Request { Pack, Verify, Help, Version };

struct Options {
  Request request = Request::Help;
  bool json = false;
  metrics::WorkProgress::Style progress = metrics::WorkProgress::Style::Auto;
  PackOptions pack;                ///< without writer and created
  std::string source;              ///< Pack: DIR
  std::string out;                 ///< Pack: OUT
  std::vector<std::string> files;  ///< Verify
};

/// `arguments` lacks the program's own name. Errors (Usage).
[[nodiscard]] Result<Options> read_options(const std::vector<std::string>& arguments);

[[nodiscard]] std::string help_text();

}  // namespace rollcall::pack
