#include "trainer/tools/checkpoint/new_checkpoint.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "runtime/base/text.h"
#include "trainer/checkpoint/exchange/output_file.h"
#include "trainer/checkpoint/format/schema.h"
#include "trainer/checkpoint/format/writer.h"

namespace rollcall::checkpoint_tool {
namespace {

namespace format = checkpoint::format;
using checkpoint::exchange::StateTensor;

bool is_sound_key(const std::string& key) {
  const auto parts = split(key, '.');
  const auto is_sound = [](const std::string& part) {
    return !part.empty() && std::ranges::none_of(part, [](char c) { return c == '/' || c == '\0'; });
  };
  return !parts.empty() && std::ranges::all_of(parts, is_sound);
}

}  // namespace

std::string key_problem(const std::vector<StateTensor>& tensors) {
  std::set<std::string_view> keys;
  for (const StateTensor& tensor : tensors) {
    if (!is_sound_key(tensor.key) || !keys.insert(tensor.key).second) {
      return "tensor name '" + tensor.key + "' cannot stand in a checkpoint";
    }
  }
  for (const StateTensor& tensor : tensors) {
    for (std::size_t dot = tensor.key.find('.'); dot != std::string::npos; dot = tensor.key.find('.', dot + 1)) {
      const std::string_view group(tensor.key.data(), dot);
      if (keys.contains(group)) {
        return "tensor " + std::string(group) + " and tensor " + tensor.key + " cannot stand in one checkpoint";
      }
    }
  }
  return "";
}

Result<void> write_model_checkpoint(const std::string& path, bool overwrite, const std::vector<StateTensor>& tensors,
                                    std::map<std::string, format::Value> values) {
  if (auto free = checkpoint::exchange::check_output_name(path, overwrite); !free) {
    return free;
  }
  if (const std::string problem = key_problem(tensors); !problem.empty()) {
    return fail("state dict", path, problem, "renaming it before saving", ExitCode::BadData);
  }
  format::Content content;
  std::vector<std::string> keys;
  for (const StateTensor& tensor : tensors) {
    std::string name = "/model/" + tensor.key;
    std::ranges::replace(name, '.', '/');
    content.tensors.push_back({name, tensor.key, tensor.dtype, tensor.shape, tensor.bytes});
    keys.push_back(tensor.key);
  }
  content.values = std::move(values);
  content.values[format::schema::kModelKeys] = std::move(keys);
  format::WriterOptions options;
  options.writer = "rollcall-checkpoint " ROLLCALL_VERSION;
  return format::write_checkpoint(path, content, options);
}

}  // namespace rollcall::checkpoint_tool
