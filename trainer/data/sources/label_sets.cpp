#include "trainer/data/sources/label_sets.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "runtime/base/text.h"

namespace rollcall::data {
namespace {

std::vector<std::string> names_in(const std::vector<std::string>& sets) {
  std::set<std::string> names;
  for (const std::string& set : sets) {
    for (std::string& name : names_in_cell(set)) {
      names.insert(std::move(name));
    }
  }
  return {names.begin(), names.end()};
}

}  // namespace

std::vector<std::string> names_in_cell(std::string_view cell) {
  std::vector<std::string> names = split(cell, ' ');
  std::erase(names, "");
  std::ranges::sort(names);
  return names;
}

LabelSets::LabelSets(const std::vector<std::string>& sets, std::vector<std::string> class_names)
    : class_names_(class_names.empty() ? names_in(sets) : std::move(class_names)),
      width_(static_cast<std::int64_t>(class_names_.size())) {
  std::map<std::string_view, std::uint32_t> numbers;
  for (const std::string& name : class_names_) {
    numbers.emplace(name, static_cast<std::uint32_t>(numbers.size()));
  }
  for (const std::string& set : sets) {
    for (const std::string& name : names_in_cell(set)) {
      if (const auto found = numbers.find(name); found != numbers.end()) {
        classes_.push_back(found->second);
      }
    }
    ends_.push_back(classes_.size());
  }
}

LabelSets LabelSets::renumbered(std::span<const std::int64_t> outputs, std::int64_t width) const {
  LabelSets sets = *this;
  sets.width_ = width;
  for (std::uint32_t& number : sets.classes_) {
    number = static_cast<std::uint32_t>(outputs[number]);
  }
  return sets;
}

std::span<const std::uint32_t> LabelSets::classes_of(std::int64_t label) const {
  const auto set = static_cast<std::size_t>(label);
  const std::size_t begin = set == 0 ? 0 : ends_[set - 1];
  return std::span(classes_).subspan(begin, ends_[set] - begin);
}

void LabelSets::write_row(std::int64_t label, std::span<float> row) const {
  std::ranges::fill(row, 0.0F);
  for (const std::uint32_t number : classes_of(label)) {
    row[number] = 1;
  }
}

}  // namespace rollcall::data
