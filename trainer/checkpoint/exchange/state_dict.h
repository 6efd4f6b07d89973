#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/checkpoint/exchange/files.h"
#include "trainer/checkpoint/format/content.h"
#include "trainer/checkpoint/format/source.h"

namespace rollcall::checkpoint::exchange {

/// One parameter or buffer: row-major, contiguous, little-endian. The bytes belong to somebody else and outlive it.
struct StateTensor {
  std::string key;  ///< "layer1.0.conv1.weight"
  format::DType dtype = format::DType::Float32;
  std::vector<std::int64_t> shape;  ///< empty: a scalar
  std::span<const std::byte> bytes;
};

/// A state dict that was read, together with the memory that its tensors point into. Move only.
struct StateDict {
  std::vector<StateTensor> tensors;       ///< in the file's order
  std::string prefix{};                   ///< what was before these names and is taken off: "module."
  std::vector<StateTensor> others{};      ///< without that prefix: a wrapper's own, or a model's beside the wrapped one
  std::string key{};                      ///< the item of the file's dict that this is; empty: the whole
  std::vector<std::string> other_keys{};  ///< items that are models as well, where nobody chose
  std::vector<std::unique_ptr<std::byte[]>> storage;
};

/// "model is taken of what it holds, model_ema is there too: ..."; empty where there is no other.
[[nodiscard]] std::string taken_text(const StateDict& state);

/// Bytes of a tensor; nothing for a negative dimension or where 63 bits do not hold the number.
[[nodiscard]] std::optional<std::uint64_t> byte_count(format::DType dtype, std::span<const std::int64_t> shape);

/// Takes "module." (DistributedDataParallel, AveragedModel), "_orig_mod." (torch.compile) and "model." (Lightning's
/// modules, by custom) off the keys where most have them, eight at most; what has not goes to `others`.
void remove_wrapper_prefixes(StateDict& state);

/// All of it, as the file has it: `prefix` before the names, and `others` behind them.
[[nodiscard]] std::vector<StateTensor> with_whole_names(const StateDict& state);

/// Reads a state dict from a file of another program's, told by its first bytes: a zip file of torch.save or a
/// safetensors file. Nothing in it is executed. `key` names an item of the file's dict (read_torch_file()), or one of
/// several models in one dict by what is before its names: "ema" for "ema.conv1.weight". Prefixes that wrappers put
/// before all names are taken off (remove_wrapper_prefixes()).
///
/// Errors: NoInput, BadData (the message says what to do in Python), InputOutput.
[[nodiscard]] Result<StateDict> read_state_dict(const std::string& path, const std::string& key = "");

/// What to do in Python with a model that lies in several files, of which `path` is one, their table or their folder:
/// torch.distributed.checkpoint's, DeepSpeed's, shards of safetensors and torch.save. Nothing for other paths, which
/// are not looked into. Errors: NoInput for a folder, else BadData.
[[nodiscard]] std::optional<Error> several_files(const std::string& path);

/// Whether a file begins as one that read_state_dict() takes; false where it cannot be read.
[[nodiscard]] bool is_state_dict(const std::string& path);

/// What a training may begin with.
struct Weights {
  std::unique_ptr<format::CheckpointSource> source;
  std::string taken;  ///< taken_text()
};

/// A state dict of another program's as a checkpoint that has a model and nothing else. Errors: those of
/// read_state_dict().
[[nodiscard]] Result<Weights> open_state_dict(const std::string& path);

/// Reads a safetensors file (github.com/huggingface/safetensors, "Format"): eight bytes N, N bytes of JSON, the
/// tensors' bytes without gaps. Tensors come in the order of their bytes.
///
/// Errors: BadData: damaged, or elements of a type that checkpoints do not have; InputOutput.
[[nodiscard]] Result<StateDict> read_safetensors(const InputFile& file);

/// Writes a safetensors file that says `"format": "pt"`. Larger elements come first, so that all are aligned; tensors
/// of one size keep their order. Errors (InputOutput): those of OutputFile.
[[nodiscard]] Result<void> write_safetensors(OutputFile& out, std::span<const StateTensor> tensors);

/// Reads a state dict from a zip file that torch.save wrote (PyTorch 1.6 or newer), without executing its pickle: see
/// pickle.h. `key` names the item of the file's dict that is the state dict, or what is before names in the one that is
/// taken without it: see find_state_dict(). Tensors that share
/// elements are given one after the other; those that are no plain row-major block are copied into one.
///
/// Errors: BadData: no such file, damaged, elements of a type that checkpoints do not have, an item of the
/// state dict that is no tensor; InputOutput.
[[nodiscard]] Result<StateDict> read_torch_file(InputFile file, const std::string& key = "");

/// Writes what torch.save(state_dict, path) writes: torch.load(path, weights_only=True, mmap=True or not) gives an
/// OrderedDict of the tensors in this order. Errors (InputOutput): those of OutputFile.
[[nodiscard]] Result<void> write_torch_file(OutputFile& out, std::span<const StateTensor> tensors);

}  // namespace rollcall::checkpoint::exchange
