// rollcall_cuda.so: NVIDIA's GPUs, and NCCL for their tensors.
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <nccl.h>

#include <torch/csrc/cuda/nccl.h>
#include <algorithm>
#include <array>
#include <cstdlib>
#include <exception>
#include <functional>
#include <memory>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#include <utility>

#include "trainer/device/cuda/device_uuid.h"
#include "trainer/device/cuda/kernel_table.h"
#include "trainer/device/cuda/nvtx_ranges.h"
#include "trainer/device/plugin.h"

namespace rollcall::device {
namespace {

Error cuda_error(const std::string& reason) {
  return fail("--device", "cuda", reason,
              "nvidia-smi on this node, choosing a node whose driver suits this LibTorch, or --device=cpu",
              ErrorKind::Unavailable);
}

Result<std::uint32_t> count() {
  int devices = 0;
  const cudaError_t status = cudaGetDeviceCount(&devices);
  if (status == cudaErrorNoDevice) {
    return std::uint32_t{0};
  }
  if (status != cudaSuccess) {
    return cuda_error(cudaGetErrorString(status));
  }
  return static_cast<std::uint32_t>(devices);
}

std::string uuid_of(const cudaDeviceProp& properties) {
  std::array<unsigned char, sizeof properties.uuid.bytes> bytes{};
  std::ranges::copy(properties.uuid.bytes, bytes.begin());
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  return device_uuid(bytes, properties.name, visible == nullptr ? "" : visible);
}

/// Checks that libtorch_cuda was built with the same version of NCCL's header: with another one it would write beyond
/// the ends of structures.
Result<void> check_nccl() {
  constexpr std::uint64_t kOwn = (std::uint64_t{NCCL_MAJOR} << 32) | (std::uint64_t{NCCL_MINOR} << 16) | NCCL_PATCH;
  if (torch::cuda::nccl::version() != kOwn) {
    return fail("--device", "cuda",
                fmt::format("LibTorch was built with another NCCL than rollcall_cuda.so ({}.{}.{})", NCCL_MAJOR,
                            NCCL_MINOR, NCCL_PATCH),
                "scripts/setup --cuda, then building again", ErrorKind::Unavailable);
  }
  // The loaded library may be newer, as a site's own often is: NCCL's structures have the caller's size.
  int loaded = 0;
  if (ncclGetVersion(&loaded) == ncclSuccess && loaded >= NCCL_VERSION_CODE) {
    return {};
  }
  return fail("--device", "cuda",
              fmt::format("the loaded NCCL (version code {}) is older than that of rollcall_cuda.so ({})", loaded,
                          NCCL_VERSION_CODE),
              "removing other libnccl.so files from LD_LIBRARY_PATH and LD_PRELOAD", ErrorKind::Unavailable);
}

/// Returns why the device cannot run the kernels, which are compiled for the architectures of cmake/CudaKernels.cmake
/// and later ones.
std::string without_kernels(const cudaDeviceProp& properties) {
  constexpr int kLeast = 8;
  return properties.major >= kLeast ? ""
                                    : fmt::format("{} has compute capability {}.{}, and rollcall's kernels need {}.0",
                                                  properties.name, properties.major, properties.minor, kLeast);
}

Result<Facts> open(std::uint32_t index) {
  RETURN_IF_ERROR(check_nccl());
  mark_nvtx_ranges();
  const int device = static_cast<int>(index);
  cudaDeviceProp properties{};
  cudaError_t status = cudaSetDevice(device);
  status = status == cudaSuccess ? cudaGetDeviceProperties(&properties, device) : status;
  if (status != cudaSuccess) {
    return cuda_error(fmt::format("device {}: {}", index, cudaGetErrorString(status)));
  }
  return Facts{
      .name = properties.name,
      .uuid = uuid_of(properties),
      .bus = fmt::format("{:04x}:{:02x}:{:02x}.0", properties.pciDomainID, properties.pciBusID, properties.pciDeviceID),
      .without_kernels = without_kernels(properties)};
}

/// Adds NCCL. A part of a group splits the communicator of the larger group (ncclCommSplit), which knows the nodes and
/// their links: no new identifier goes through the store, and no topology search is repeated. Its buffers are its own
/// unless the user sets NCCL_COMM_SPLIT_SHARE_RESOURCES=1: NCCL runs the collectives of communicators that share
/// buffers one after the other, but those within nodes should overlap those between nodes.
void add_nccl(c10d::ProcessGroup& group, const c10::intrusive_ptr<c10d::Store>& store,
              std::chrono::milliseconds timeout, const ParentGroup& whole) {
  const auto of_nccl = c10d::ProcessGroupNCCL::Options::create();
  // c10d's thread also ends works that take too long, but names no ranks: rollcall's watchdog does so earlier.
  of_nccl->timeout = 2 * timeout + std::chrono::minutes(1);
  of_nccl->split_from = c10::dynamic_intrusive_pointer_cast<c10d::ProcessGroupNCCL>(whole.backend);
  of_nccl->split_color = static_cast<int>(whole.part);
  const auto backend = c10::make_intrusive<c10d::ProcessGroupNCCL>(
      c10::make_intrusive<c10d::PrefixStore>("nccl", store), group.getRank(), group.getSize(), of_nccl);
  int current = 0;
  C10_CUDA_CHECK(cudaGetDevice(&current));
  const at::Device device(c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(current));
  group.setBoundDeviceId(device);  // for backends that are added later
  group.setBackend(c10::DeviceType::CUDA, c10d::ProcessGroup::BackendType::NCCL,
                   c10::intrusive_ptr<c10d::Backend>(backend));
  group.setDefaultBackend(c10d::ProcessGroup::BackendType::NCCL);
  backend->eagerConnectSingleDevice(device);  // an unreachable rank is an error now, not in the first step
  of_nccl->split_from.reset();                // which may end before
}

/// Calls ncclCommGetAsyncError: c10d's thread checks only its own works, which do not cover collectives in graphs.
std::string health_check(c10d::Backend& backend) {
  auto* const nccl = dynamic_cast<c10d::ProcessGroupNCCL*>(&backend);
  if (nccl == nullptr) {
    return "";
  }
  auto* const communicator = reinterpret_cast<ncclComm_t>(nccl->getCommPtr());  // of the thread's current device
  ncclResult_t state = ncclSuccess;
  if (communicator == nullptr || ncclCommGetAsyncError(communicator, &state) != ncclSuccess || state == ncclSuccess ||
      state == ncclInProgress) {
    return "";
  }
  return fmt::format("NCCL: {}: {}", ncclGetErrorString(state), ncclGetLastError(communicator));
}

/// Captures as torch.cuda.graph() does (torch/cuda/graphs.py): first frees cached memory of earlier steps for the
/// graph. ThreadLocal: other threads continue (saves, the watchdog).
std::function<void()> capture(const std::function<void()>& work) {
  C10_CUDA_CHECK(cudaDeviceSynchronize());
  c10::cuda::CUDACachingAllocator::emptyCache();
  const auto graph = std::make_shared<at::cuda::CUDAGraph>();
  graph->capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
  try {
    work();
  } catch (...) {
    try {
      graph->capture_end();
    } catch (const std::exception&) {
      // The first failure is reported.
    }
    throw;
  }
  graph->capture_end();
  return [graph] { graph->replay(); };
}

std::string flight_record() { return c10d::dump_nccl_trace_json(/*includeCollectives=*/true, /*onlyActive=*/false); }

}  // namespace
}  // namespace rollcall::device

extern "C" __attribute__((visibility("default"))) const rollcall::device::Plugin* rollcall_device_plugin() {
  using namespace rollcall::device;
  static const Plugin plugin{.build = ROLLCALL_PLUGIN_BUILD,
                             .type = c10::DeviceType::CUDA,
                             .backend = "nccl",
                             .count = &count,
                             .open = &open,
                             .add_backend = &add_nccl,
                             .health_check = &health_check,
                             .flight_record = &flight_record,
                             .capture = &capture,
                             .kernels = own_kernels()};
  return &plugin;
}
