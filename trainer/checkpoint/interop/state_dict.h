#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/checkpoint/format/content.h"
#include "trainer/checkpoint/format/source.h"
#include "trainer/checkpoint/interop/files.h"

namespace rollcall::checkpoint::interop {

/// One parameter or buffer: row-major, contiguous, little-endian. The bytes belong to the caller and outlive it.
struct StateTensor {
  std::string key;  ///< "layer1.0.conv1.weight"
  format::DType dtype = format::DType::Float32;
  std::vector<std::int64_t> shape;  ///< empty: a scalar
  std::span<const std::byte> bytes;
};

/// A state dict that was read, with the memory of its tensors. Move only.
struct StateDict {
  std::vector<StateTensor> tensors;  ///< in the file's order
  std::string prefix{};              ///< prefix that was removed from these names: "module."
  /// Tensors without that prefix: of a wrapper, or of a model beside the wrapped one.
  std::vector<StateTensor> others{};
  std::string key{};                      ///< item of the file's dict that was read; empty: the whole file
  std::vector<std::string> other_keys{};  ///< items that are models as well, if no key was given
  std::vector<std::unique_ptr<std::byte[]>> storage;
};

/// Returns "model was chosen; the file also holds model_ema ..."; empty if it holds no other model.
[[nodiscard]] std::string taken_text(const StateDict& state);

/// Returns the bytes of a tensor; nothing for a negative dimension or a number that does not fit into 63 bits.
[[nodiscard]] std::optional<std::uint64_t> byte_count(format::DType dtype, std::span<const std::int64_t> shape);

/// Removes "module." (DistributedDataParallel, AveragedModel), "_orig_mod." (torch.compile) and "model." (Lightning's
/// modules, by convention) from the keys if most have them, at most eight times. Tensors without the prefix go to
/// `others`.
void remove_wrapper_prefixes(StateDict& state);

/// Returns all tensors with the names of the file: with `prefix`, followed by `others`.
[[nodiscard]] std::vector<StateTensor> with_whole_names(const StateDict& state);

/// Reads a state dict from a file of another program, recognised by its first bytes: a zip file of torch.save or a
/// safetensors file. Executes nothing in it. `key` names an item of the file's dict (read_torch_file()), or one of
/// several models in one dict by its prefix: "ema" for "ema.conv1.weight". Removes prefixes that wrappers put before
/// all names (remove_wrapper_prefixes()).
///
/// Errors: NoInput, BadData (the message says what to do in Python), InputOutput.
[[nodiscard]] Result<StateDict> read_state_dict(const std::string& path, const std::string& key = "");

/// Returns an error that says what to do in Python with a model in several files, of which `path` is one, or their
/// index or folder: torch.distributed.checkpoint, DeepSpeed, shards of safetensors and torch.save. Returns nothing for
/// other paths, which are not read. Errors: NoInput for a folder, else BadData.
[[nodiscard]] std::optional<Error> several_files(const std::string& path);

/// Returns whether a file begins like one that read_state_dict() accepts; false if it cannot be read.
[[nodiscard]] bool is_state_dict(const std::string& path);

/// Weights from which a training may start.
struct Weights {
  std::unique_ptr<format::CheckpointSource> source;
  std::string taken;  ///< taken_text()
};

/// Opens a state dict of another program as a checkpoint that has only a model. Errors: those of read_state_dict().
[[nodiscard]] Result<Weights> open_state_dict(const std::string& path);

/// Reads a safetensors file (github.com/huggingface/safetensors, "Format"): eight bytes N, N bytes of JSON, the
/// tensors' bytes without gaps. The tensors are in the order of their bytes.
///
/// Errors: BadData: damaged, or elements of a type that checkpoints do not support; InputOutput.
[[nodiscard]] Result<StateDict> read_safetensors(const InputFile& file);

/// Writes a safetensors file with `"format": "pt"`. Larger elements come first, so that all are aligned; tensors of one
/// size keep their order. Errors (InputOutput): those of OutputFile.
[[nodiscard]] Result<void> write_safetensors(OutputFile& out, std::span<const StateTensor> tensors);

/// Reads a state dict from a zip file of torch.save (PyTorch 1.6 or newer) without executing its pickle: see pickle.h.
/// `key` names the item of the file's dict, or a prefix of names: see find_state_dict(). Tensors that share elements
/// are returned one after the other; tensors that are not a plain row-major block are copied into one.
///
/// Errors: BadData: not such a file, damaged, elements of a type that checkpoints do not support, an item of the state
/// dict that is not a tensor; InputOutput.
[[nodiscard]] Result<StateDict> read_torch_file(InputFile file, const std::string& key = "");

/// Writes the file that torch.save(state_dict, path) writes: torch.load(path, weights_only=True, mmap=True or not)
/// returns an OrderedDict of the tensors in this order. Errors (InputOutput): those of OutputFile.
[[nodiscard]] Result<void> write_torch_file(OutputFile& out, std::span<const StateTensor> tensors);

}  // namespace rollcall::checkpoint::interop
