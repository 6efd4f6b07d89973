#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>

// What Nvml asks of libnvidia-ml.so.1, of two devices. The file $STAND_IN_NVML has what each has used, in millijoules,
// then of the first and of the second its load (per cent), bytes in use, bytes, milliwatts. What is not there or is "-"
// is not supported; a device whose bytes in use are "lost" has fallen off the bus. Their UUIDs are GPU-0 and GPU-1; the
// first also answers for all stand-in devices. MIG-1 is an instance of the second, whose four words come last: but for
// its memory it does not say them.

namespace {

constexpr int kSuccess = 0;
constexpr int kInvalidArgument = 2;
constexpr int kNotSupported = 3;
constexpr int kNotFound = 6;
constexpr int kGpuIsLost = 15;
int devices[2];
int instance;

enum Number { kEnergy, kLoad, kUsed, kTotal, kPower };

std::string word_of(const void* device, Number number) {
  constexpr int kOfDevice = 4;
  constexpr int kInstance = 2;
  const int index = device == &devices[0] ? 0 : device == &devices[1] ? 1 : kInstance;
  if (index == kInstance && number != kUsed && number != kTotal) {
    return "";
  }
  const int before = number == kEnergy ? index : 2 + kOfDevice * index + (number - kLoad);
  std::ifstream file(std::getenv("STAND_IN_NVML"));
  std::string word;
  for (int i = 0; i <= before; ++i) {
    word.clear();
    file >> word;
  }
  return word;
}

template <typename Value>
int answer(const void* device, Number number, Value* value) {
  const std::string word = word_of(device, number);
  if (word == "lost") {
    return kGpuIsLost;
  }
  const bool known = !word.empty() && word != "-";
  *value = static_cast<Value>(known ? std::stoull(word) : 0);
  return known ? kSuccess : kNotSupported;
}

}  // namespace

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED int nvmlInit_v2() { return std::getenv("STAND_IN_NVML") != nullptr ? kSuccess : kNotFound; }

EXPORTED int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = 2;
  return kSuccess;
}

EXPORTED int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  *device = &devices[index];
  return index < 2 ? kSuccess : kNotFound;
}

EXPORTED int nvmlDeviceGetHandleByUUID(const char* uuid, void** device) {
  const std::string asked = uuid;
  *device = asked == "MIG-1" ? &instance : asked == "GPU-1" ? &devices[1] : &devices[0];
  return asked == "MIG-1" || asked == "GPU-0" || asked == "GPU-1" || asked.rfind("stand-in-", 0) == 0 ? kSuccess
                                                                                                      : kNotFound;
}

EXPORTED int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(void* mig_device, void** device) {
  *device = &devices[1];
  return mig_device == &instance ? kSuccess : kInvalidArgument;
}

EXPORTED int nvmlDeviceGetTotalEnergyConsumption(void* device, unsigned long long* millijoules) {
  return answer(device, kEnergy, millijoules);
}

EXPORTED int nvmlDeviceGetUtilizationRates(void* device, unsigned* gpu_and_memory) {
  return answer(device, kLoad, &gpu_and_memory[0]);
}

EXPORTED int nvmlDeviceGetMemoryInfo(void* device, unsigned long long* total_free_used) {
  const int status = answer(device, kUsed, &total_free_used[2]);
  return status == kSuccess ? answer(device, kTotal, &total_free_used[0]) : status;
}

EXPORTED int nvmlDeviceGetPowerUsage(void* device, unsigned* milliwatts) { return answer(device, kPower, milliwatts); }

EXPORTED const char* nvmlErrorString(int status) { return status == kGpuIsLost ? "GPU is lost" : "Unknown Error"; }
