#include "trainer/data/sources/label_list.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "runtime/base/small_file.h"
#include "trainer/data/sources/csv_rows.h"
#include "trainer/data/sources/data_parts.h"
#include "trainer/data/sources/label_sets.h"
#include "trainer/data/sources/left_out.h"

namespace rollcall::data {
namespace {

namespace fs = std::filesystem;

Error wrong_row(const std::string& file, std::int64_t row, const std::string& reason, const std::string& advice,
                ErrorKind kind = ErrorKind::BadData) {
  return fail("--data", fmt::format("{}, row {}", file, row), reason, advice, kind);
}

Error unknown_label(const std::string& file, std::int64_t row, const std::string& label) {
  return wrong_row(file, row, fmt::format("has the unknown label '{}'", label),
                   "correcting it, or adding it to the class names");
}

struct Row {
  std::int64_t number = 0;
  std::string path;
  std::string label;
  ListedPart part = ListedPart::Unnamed;
};

/// The places of the columns in a row.
struct Columns {
  std::size_t path = 0;
  std::size_t label = 0;
  std::optional<std::size_t> split;
  std::size_t count = 0;
};

Result<Columns> columns_of(const std::string& file, const std::vector<std::string>& header, bool several) {
  const auto place = [&](std::string_view name) {
    const auto found = std::find(header.begin(), header.end(), name);
    return found == header.end() ? std::nullopt : std::optional(static_cast<std::size_t>(found - header.begin()));
  };
  const std::optional<std::size_t> path = place("path") ? place("path") : place("id");
  const std::optional<std::size_t> label = place("label") ? place("label") : place("labels");
  if (several && place("label") && place("labels")) {
    return wrong_row(file, 1, "has the columns label and labels", "removing one of them");
  }
  if (label && !place("label") && !several) {
    return wrong_row(file, 1, "has a column labels, but the training gives each image one class",
                     "--loss=multi-label, or calling the column label");
  }
  if (!path || !label) {
    return wrong_row(file, 1, fmt::format("names no column {}", path ? "label" : "path or id"),
                     "beginning the file with a row such as path,label");
  }
  return Columns{*path, *label, place("split"), header.size()};
}

Result<ListedPart> part_of(const std::string& file, std::int64_t row, const std::string& split) {
  if (is_train_part(split)) {
    return ListedPart::Train;
  }
  if (is_valid_part(split)) {
    return ListedPart::Valid;
  }
  return split == "test"
             ? Result(ListedPart::Test)
             : wrong_row(file, row, fmt::format("names the part '{}'", split), "writing train, val or test");
}

Result<std::vector<Row>> rows_of(const std::string& file, bool several, SourceIndices& indices) {
  std::string text;
  if (const FileReading reading = read_small_file(file, kMostCsvBytes, text); !reading.reason.empty()) {
    return fail("--data", file, "cannot be read: " + reading.reason, "checking the file and its permissions",
                ErrorKind::NoInput);
  }
  CsvRows csv(text);
  std::vector<std::string> fields;
  (void)csv.next(fields);
  ASSIGN_OR_RETURN(const Columns columns, columns_of(file, fields, several));
  std::vector<Row> rows;
  while (csv.next(fields)) {
    if (csv.has_open_quote()) {
      return wrong_row(file, csv.number(), "begins a quote that does not end", "adding the closing quote");
    }
    if (fields.size() != columns.count) {
      return wrong_row(file, csv.number(), fmt::format("has {} fields instead of {}", fields.size(), columns.count),
                       "putting fields that contain a comma into quotes");
    }
    Row row{csv.number(), fields[columns.path], fields[columns.label]};
    if (row.path.empty() || (row.label.empty() && !several)) {
      return wrong_row(file, row.number, row.path.empty() ? "has no path" : "has no label", "correcting the row");
    }
    if (columns.split) {
      ASSIGN_OR_RETURN(row.part, part_of(file, row.number, fields[*columns.split]));
    }
    rows.push_back(std::move(row));
    indices.found += 1;
  }
  return rows.empty() ? fail("--data", file, "lists no images", "adding a row for each image", ErrorKind::BadData)
                      : Result(std::move(rows));
}

/// Finds the pictures of a list.
class Pictures {
 public:
  explicit Pictures(const std::string& file)
      : file_(file), folder_(fs::path(file).parent_path()), beside_(fs::path(file).stem()) {}

  /// Replaces the row's path by that of its picture, relative to the list's folder.
  [[nodiscard]] Result<void> find(Row& row) const {
    for (const fs::path& given : {fs::path(row.path), beside_ / row.path}) {
      if (exists(given)) {
        row.path = given.string();
        return {};
      }
      for (const std::string_view ending : kPictureEndings) {
        const std::string complete = fmt::format("{}.{}", given.string(), ending);
        if (!is_picture_ending(last_ending(given.filename().string())) && exists(complete)) {
          row.path = complete;
          return {};
        }
      }
    }
    return wrong_row(file_, row.number, fmt::format("names {}, which does not exist", (folder_ / row.path).string()),
                     "correcting its path, which is relative to the folder of the list, or removing the row",
                     ErrorKind::NoInput);
  }

 private:
  [[nodiscard]] bool exists(const fs::path& path) const {
    struct stat facts {};
    return ::stat((folder_ / path).c_str(), &facts) == 0 && S_ISREG(facts.st_mode);
  }

  const std::string& file_;
  fs::path folder_;
  fs::path beside_;
};

/// Checks the classes of the rows, and makes each label the sorted names with a blank between.
Result<void> check_classes(const std::string& file, const std::vector<std::string>& class_names,
                           std::vector<Row>& rows) {
  const std::set<std::string_view> known(class_names.begin(), class_names.end());
  bool any = false;
  for (Row& row : rows) {
    const std::vector<std::string> names = names_in_cell(row.label);
    if (const auto twice = std::ranges::adjacent_find(names); twice != names.end()) {
      return wrong_row(file, row.number, fmt::format("has the label '{}' twice", *twice), "removing one of them");
    }
    const auto joined =
        std::ranges::find_if(names, [](const auto& name) { return name.find_first_of(",;|\t") != std::string::npos; });
    if (known.empty() && joined != names.end()) {
      return wrong_row(file, row.number,
                       fmt::format("has the label '{}', which looks like a list with another separator", *joined),
                       "writing blanks between the names, or naming the classes with --class-names");
    }
    const auto unknown = std::ranges::find_if_not(names, [&](const auto& name) { return known.contains(name); });
    if (!known.empty() && unknown != names.end()) {
      return unknown_label(file, row.number, *unknown);
    }
    row.label = fmt::format("{}", fmt::join(names, " "));
    any = any || !names.empty();
  }
  return any ? Result<void>()
             : fail("--data", file, "gives no image a class", "writing class names into the column of labels",
                    ErrorKind::BadData);
}

std::vector<std::string> labels_of(const std::vector<Row>& rows) {
  std::set<std::string> labels;
  for (const Row& row : rows) {
    labels.insert(row.label);
  }
  return {labels.begin(), labels.end()};
}

Result<SampleIndex> index_list(const std::string& source, const std::string& file, const ListOptions& options,
                               SourceIndices& indices) {
  SampleIndex::About about{.source = source, .class_names = options.class_names, .stamps = {file_stamp(file)}};
  ASSIGN_OR_RETURN(std::vector<Row> rows, rows_of(file, options.several, indices));
  RETURN_IF_ERROR(options.several ? check_classes(file, options.class_names, rows) : Result<void>());
  if (options.several || options.class_names.empty()) {
    about.class_names = labels_of(rows);
  }
  constexpr std::size_t kRowsATime = 256;
  const Pictures pictures(file);
  const auto find_some = [&](std::size_t part) -> Result<void> {
    const std::size_t end = std::min(rows.size(), (part + 1) * kRowsATime);
    for (std::size_t i = part * kRowsATime; i < end && !indices.stop; ++i) {
      RETURN_IF_ERROR(pictures.find(rows[i]));
    }
    return indices.stop ? Result<void>(indexing_stopped(file)) : Result<void>();
  };
  RETURN_IF_ERROR(in_parallel((rows.size() + kRowsATime - 1) / kRowsATime, find_some));
  std::map<std::string_view, std::uint32_t> labels;
  for (const std::string& name : about.class_names) {
    if (!labels.emplace(name, static_cast<std::uint32_t>(labels.size())).second) {
      return fail("--class-names", name, "is the name of two classes", "giving each class a name of its own",
                  ErrorKind::BadData);
    }
  }
  SampleIndexBuilder samples;
  for (const Row& row : rows) {
    const auto label = labels.find(row.label);
    if (label == labels.end()) {
      return unknown_label(file, row.number, row.label);
    }
    samples.add({.shard = static_cast<std::uint32_t>(row.part), .label = label->second}, row.path);
  }
  return samples.finish(about);
}

}  // namespace

bool is_label_list(const std::string& path) { return last_ending(fs::path(path).filename().string()) == "csv"; }

Result<ImageTree> read_label_list(const std::string& path, const ListOptions& options, SourceIndices& indices) {
  std::error_code ignored;
  const fs::path absolute = fs::absolute(path, ignored);
  const std::string source =
      fmt::format("list of {} in {} {}:{}\n{}", picture_endings(), options.several ? "sets of classes" : "classes",
                  options.class_names.size(), checksum_of_names(options.class_names), absolute.string());
  ASSIGN_OR_RETURN(SampleIndex index,
                   indices.get_or_make(source, [&] { return index_list(source, path, options, indices); }));
  const fs::path folder = fs::path(path).parent_path();
  return ImageTree{folder.empty() ? "." : folder.string(), std::move(index)};
}

}  // namespace rollcall::data
