#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rollcall::data {

/// Returns the class names in a cell of a list of labels, which blanks separate, sorted. A name may be there twice.
[[nodiscard]] std::vector<std::string> names_in_cell(std::string_view cell);

/// The classes of images that may have several, or none. Each different set of classes is a label of its source, so
/// that an image has one number as anywhere else; this object turns the number into a row of 0 and 1. Immutable.
class LabelSets {
 public:
  /// `sets`: for each label the names of its classes with blanks between. `class_names`: all classes, in the order of
  /// their numbers; empty: those in the sets, sorted. Names of a set that are not among them are left out.
  explicit LabelSets(const std::vector<std::string>& sets, std::vector<std::string> class_names = {});

  /// Returns the same sets with class i as number `outputs[i]` of `width` classes.
  [[nodiscard]] LabelSets renumbered(std::span<const std::int64_t> outputs, std::int64_t width) const;

  [[nodiscard]] const std::vector<std::string>& class_names() const { return class_names_; }
  /// Returns the number of values of a row.
  [[nodiscard]] std::int64_t width() const { return width_; }
  /// Returns the numbers of a label's classes, in ascending order unless they were renumbered.
  [[nodiscard]] std::span<const std::uint32_t> classes_of(std::int64_t label) const;
  /// Writes 1 for each class of the label and 0 for the others. row: width() values.
  void write_row(std::int64_t label, std::span<float> row) const;

 private:
  std::vector<std::string> class_names_;
  std::int64_t width_ = 0;
  std::vector<std::size_t> ends_;       ///< of each label's classes in classes_
  std::vector<std::uint32_t> classes_;  ///< of all labels
};

}  // namespace rollcall::data
