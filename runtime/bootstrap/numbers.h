#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/base/environment.h"
#include "runtime/base/result.h"

namespace rollcall::bootstrap {

/// Reads numbers from a launcher's variables and remembers the first that is missing or damaged, so that a caller reads
/// all and looks at error() once. Keeps a reference to the environment.
class Numbers {
 public:
  /// `launcher` is named in the errors as who sets the variables: "Slurm".
  Numbers(const Environment& environment, std::string launcher);

  /// The number, or nothing where the variable is unset, empty or (an error) no number.
  [[nodiscard]] std::optional<std::uint32_t> optional(std::string_view name);
  /// The same, where a variable that is not set is an error, too; 0 then.
  [[nodiscard]] std::uint32_t required(std::string_view name);

  /// Exit code Mismatch.
  [[nodiscard]] const std::optional<Error>& error() const { return error_; }

 private:
  const Environment& environment_;
  std::string launcher_;
  std::optional<Error> error_;
};

/// A variable that its launcher set wrongly. Exit code Mismatch.
[[nodiscard]] Error damaged_variable(std::string_view name, const std::string& value, const std::string& reason,
                                     const std::string& launcher);

}  // namespace rollcall::bootstrap
