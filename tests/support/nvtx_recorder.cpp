// A tool of NVIDIA's as NVTX knows one: $NVTX_INJECTION64_PATH names it, a program that marks ranges loads it. It
// writes each of them to the file $NVTX_RECORDED.$RANK: "push THREAD NAME", "pop THREAD", "start ID NAME", "end ID".
#include <nvtx3/nvToolsExt.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>

namespace {

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

void record(const std::string& line) {
  static std::mutex mutex;
  static std::FILE* const file = std::fopen((variable("NVTX_RECORDED") + "." + variable("RANK")).c_str(), "w");
  const std::lock_guard lock(mutex);
  if (file != nullptr) {
    std::fprintf(file, "%s\n", line.c_str());
    std::fflush(file);  // whatever way the process ends
  }
}

std::string this_thread() {
  std::ostringstream text;
  text << std::this_thread::get_id();
  return text.str();
}

int push(const char* name) {
  record("push " + this_thread() + " " + name);
  return 0;
}

int pop() {
  record("pop " + this_thread());
  return 0;
}

nvtxRangeId_t start(const char* name) {
  static std::atomic<nvtxRangeId_t> last{0};
  const nvtxRangeId_t id = ++last;
  record("start " + std::to_string(id) + " " + name);
  return id;
}

void end(nvtxRangeId_t id) { record("end " + std::to_string(id)); }

}  // namespace

extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t table_of) {
  const auto* const callbacks = static_cast<const NvtxExportTableCallbacks*>(table_of(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable functions = nullptr;
  unsigned size = 0;
  if (callbacks == nullptr || callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &functions, &size) == 0 ||
      size <= NVTX_CBID_CORE_RangePop) {
    return 0;
  }
  *functions[NVTX_CBID_CORE_RangePushA] = reinterpret_cast<NvtxFunctionPointer>(&push);
  *functions[NVTX_CBID_CORE_RangePop] = reinterpret_cast<NvtxFunctionPointer>(&pop);
  *functions[NVTX_CBID_CORE_RangeStartA] = reinterpret_cast<NvtxFunctionPointer>(&start);
  *functions[NVTX_CBID_CORE_RangeEnd] = reinterpret_cast<NvtxFunctionPointer>(&end);
  return 1;
}
