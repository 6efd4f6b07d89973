#pragma once

#include <array>
#include <string_view>

namespace rollcall::resolve {

/// A variable that names a cache folder. The policy in `setting` selects the folder: shared, local, job or off.
struct Cache {
  std::string_view variable;
  std::string_view setting;
  std::string_view folder;  ///< relative to cache.shared, cache.local or the job's folder in it
};

// By default downloads are shared. Compiled code is not, because processes of several nodes would race for it on a
// shared file system.
inline constexpr std::array kCaches{
    Cache{"TORCH_HOME", "cache.torch", "torch"},
    Cache{"HF_HOME", "cache.huggingface", "huggingface"},
    Cache{"XDG_CACHE_HOME", "cache.xdg", "xdg"},
    Cache{"PIP_CACHE_DIR", "cache.pip", "pip"},
    Cache{"TRITON_CACHE_DIR", "cache.triton", "triton"},
    Cache{"TORCHINDUCTOR_CACHE_DIR", "cache.inductor", "inductor"},
    Cache{"TORCH_EXTENSIONS_DIR", "cache.extensions", "torch_extensions"},
    Cache{"CUDA_CACHE_PATH", "cache.cuda", "cuda"},
    Cache{"MIOPEN_USER_DB_PATH", "cache.miopen", "miopen"},
    Cache{"MIOPEN_CUSTOM_CACHE_DIR", "cache.miopen", "miopen"},
    Cache{"JAX_COMPILATION_CACHE_DIR", "cache.jax", "jax"},
};

/// Returns the row of `variable`, or null.
[[nodiscard]] constexpr const Cache* find_cache(std::string_view variable) {
  for (const Cache& cache : kCaches) {
    if (cache.variable == variable) {
      return &cache;
    }
  }
  return nullptr;
}

}  // namespace rollcall::resolve
