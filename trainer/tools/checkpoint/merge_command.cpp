#include <fmt/format.h>

#include <algorithm>

#include "runtime/base/text.h"
#include "trainer/tools/checkpoint/checkpoint_file.h"
#include "trainer/tools/checkpoint/program.h"
#include "trainer/tools/checkpoint/statistics.h"

namespace rollcall::checkpoint_tool {
namespace merge_impl {
namespace {

using checkpoint::format::Value;
using checkpoint::interop::StateDict;

constexpr std::string_view kText =
    R"help(Averages the models of several checkpoints, element by element: the mean of the last checkpoints of a run
often generalises better than each of them ("model soup", checkpoint averaging). Integers, such as BatchNorm's counters,
are those of the last checkpoint. Running means and variances are averaged too, which is close to the result of a pass
over the training data. Checkpoints have no shards to be joined: each is one file, whatever the parallelism.

Examples:
  rollcall-checkpoint merge mean.h5 checkpoints/step-00000900.h5 checkpoints/step-00001000.h5
)help";

Error other_model(const CheckpointFile& file, const CheckpointFile& first, const std::string& key) {
  return fail("checkpoint", file.path(), fmt::format("does not hold the model of {}: {} differs", first.path(), key),
              "naming checkpoints of one model", ErrorKind::Mismatch);
}

Result<std::vector<CheckpointFile>> open_all(std::span<const std::string> paths) {
  std::vector<CheckpointFile> files;
  for (const std::string& path : paths) {
    ASSIGN_OR_RETURN(auto file, CheckpointFile::open(path));
    files.push_back(std::move(file));
  }
  return files;
}

/// Checks that names, types and shapes of the models are equal.
Result<void> check_same_model(const std::vector<CheckpointFile>& files) {
  ASSIGN_OR_RETURN(const auto first, files.front().model());
  for (const CheckpointFile& file : files) {
    ASSIGN_OR_RETURN(const auto model, file.model());
    for (const CheckpointTensor* const tensor : first) {
      const CheckpointTensor* const other = file.find(tensor->path);
      if (other == nullptr || other->dtype != tensor->dtype || other->shape != tensor->shape) {
        return other_model(file, files.front(), tensor->key);
      }
    }
    if (model.size() != first.size()) {
      return other_model(file, files.front(), "the number of tensors");
    }
  }
  return {};
}

/// Computes the mean of a tensor over all files in float64; integer tensors are those of the last file.
Result<std::unique_ptr<std::byte[]>> merged(const std::vector<CheckpointFile>& files, const CheckpointTensor& tensor) {
  if (!is_floating_point(tensor.dtype)) {
    return files.back().read(*files.back().find(tensor.path));
  }
  std::vector<double> sums(tensor.elements(), 0.0);
  std::unique_ptr<std::byte[]> last;
  for (const CheckpointFile& file : files) {
    ASSIGN_OR_RETURN(auto bytes, file.read(*file.find(tensor.path)));
    last = std::move(bytes);
    with_element_reader(tensor.dtype, [&](auto read) {
      const std::size_t size = checkpoint::format::dtype_size(tensor.dtype);
      for (std::size_t i = 0; i < sums.size(); ++i) {
        sums[i] += read(last.get() + i * size);
      }
    });
  }
  for (double& sum : sums) {
    sum /= static_cast<double>(files.size());
  }
  write_elements(sums, tensor.dtype, {last.get(), tensor.bytes});
  return last;
}

Result<StateDict> merge_models(const std::vector<CheckpointFile>& files, metrics::WorkProgress& progress) {
  const auto model = *files.back().model();  // exists, by check_same_model()
  progress.begin("averaging", model.size());
  StateDict state;
  std::uint64_t read = 0;
  for (const CheckpointTensor* const tensor : model) {
    ASSIGN_OR_RETURN(auto bytes, merged(files, *tensor));
    state.tensors.push_back({tensor->key, tensor->dtype, tensor->shape, {bytes.get(), tensor->bytes}});
    state.storage.push_back(std::move(bytes));
    progress.step(state.tensors.size(), read += tensor->bytes * files.size());
  }
  progress.end();
  return state;
}

Result<int> run(CommandContext& context) {
  const std::string& path = context.arguments.front();
  const auto sources = std::span<const std::string>(context.arguments).subspan(1);
  ASSIGN_OR_RETURN(const auto files, open_all(sources));
  RETURN_IF_ERROR(check_same_model(files));
  ASSIGN_OR_RETURN(const auto state, merge_models(files, context.progress));
  std::map<std::string, Value> values{{"/merged_from", std::vector<std::string>(sources.begin(), sources.end())}};
  RETURN_IF_ERROR(write_model_checkpoint(path, context.line.has("overwrite"), state.tensors, std::move(values)));
  if (context.json()) {
    print_json(context.out, "merge", {{"path", path}, {"from", sources}, {"tensors", state.tensors.size()}});
  } else {
    context.out << fmt::format("{}: the mean of {}, {}\n", printable(path), counted(files.size(), "checkpoint"),
                               counted(state.tensors.size(), "tensor"));
  }
  return to_int(ExitCode::Success);
}

}  // namespace
}  // namespace merge_impl

Command merge_command() {
  return {"merge",
          "the mean of several models",
          "OUT CHECKPOINT...",
          merge_impl::kText,
          3,
          kAnyNumber,
          kOutFlags,
          kProgressTable,
          merge_impl::run};
}

}  // namespace rollcall::checkpoint_tool
