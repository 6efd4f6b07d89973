#include "trainer/distributed/errors/exceptions.h"

#include <c10/util/Exception.h>
#include <algorithm>
#include <array>
#include <cstdlib>
#include <new>
#include <stdexcept>
#include <string_view>
#include <system_error>

#include "runtime/base/this_process.h"

namespace rollcall::process_group {
namespace {

// Values of cudaError_t (CUDA's driver_types.h): out of memory, and the failures of a device or its driver: devices
// unavailable, no device, ECC, NVLink, contained error, launch timeout, hardware stack, launch failure, system not
// ready, driver mismatch, MPS, unknown. All other errors are the program's own.
constexpr std::int32_t kNoMemory = 2;
constexpr std::array<std::int32_t, 12> kFails{46, 100, 214, 220, 226, 702, 714, 719, 802, 803, 805, 999};

Error device_fails(const std::string& reason) {
  return fail(
      "--device", "", reason,
      "nvidia-smi and the kernel's log on this node, then submitting again without this node, which continues from "
      "the last checkpoint",
      ErrorKind::DeviceLost);
}

Error out_of_device_memory(const std::string& reason) {
  return fail("device memory", "", reason,
              "lowering --batch-size and raising --grad-accumulation by the same factor, --precision=bf16, or "
              "--parallel=fsdp, which divides parameters, gradients and optimizer state among the ranks",
              ErrorKind::DeviceOutOfMemory);
}

Error misused(const std::string& reason) {
  return fail("training step", "", reason, "lowering --batch-size if memory ran out", ErrorKind::Internal);
}

/// Removes the text from `begin` to the end of the next `end`, if both are found.
void remove_between(std::string& text, std::string_view begin, std::string_view end) {
  const std::size_t from = text.find(begin);
  const std::size_t to = from == std::string::npos ? from : text.find(end, from);
  if (to != std::string::npos) {
    text.erase(from, to + end.size() - from);
  }
}

bool has_diagnostics() {
  const char* const level = std::getenv("TORCH_DISTRIBUTED_DEBUG");
  return level != nullptr && std::string_view(level) != "OFF";
}

}  // namespace

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

std::string library_text(const std::string& text) {
  std::string line = first_line(text);
  if (line.find("/gloo/") == std::string::npos || has_diagnostics()) {
    return line;
  }
  remove_between(line, "[/", "] ");
  return line.substr(0, line.find(". This is typically caused"));
}

std::string ReportingRank::text() const {
  return "rank " + std::to_string(rank) + " of " + std::to_string(world_size) + " on " + this_host_name();
}

std::optional<Error> out_of_memory(const std::exception& error) {
  if (const auto* const of_device = dynamic_cast<const c10::OutOfMemoryError*>(&error)) {
    return out_of_device_memory(first_line(of_device->what_without_backtrace()));
  }
  const std::string what = first_line(error.what());
  const bool of_torch = what.find("can't allocate memory") != std::string::npos;  // of c10's allocator for CPUs
  if (!of_torch && dynamic_cast<const std::bad_alloc*>(&error) == nullptr) {
    return std::nullopt;
  }
  constexpr std::string_view kBefore = "tried to allocate ";
  const std::size_t size = what.find(kBefore);
  const std::string bytes = size == std::string::npos ? "" : what.substr(size + kBefore.size());
  return fail("memory", bytes.empty() ? "an allocation" : bytes.substr(0, bytes.find(" bytes") + 6),
              "cannot be allocated: this rank's part of the training exceeds its memory limit",
              "--parallel=fsdp, which divides parameters, gradients and optimizer state among the ranks, or "
              "using more ranks, or lowering --batch-size, or asking Slurm for more memory (--mem)",
              ErrorKind::Unavailable);
}

std::optional<Error> device_error(const std::exception& error) {
  if (const auto* const of_driver = dynamic_cast<const c10::AcceleratorError*>(&error)) {
    const std::string reason = first_line(of_driver->what_without_backtrace());
    const std::int32_t code = of_driver->get_error_code();
    if (code == kNoMemory) {
      return out_of_device_memory(reason);
    }
    return std::ranges::find(kFails, code) == kFails.end() ? misused(reason) : device_fails(reason);
  }
  const auto* const of_nccl = dynamic_cast<const c10::DistError*>(&error);
  const std::string what = of_nccl == nullptr ? "" : of_nccl->what_without_backtrace();
  if (what.find("unhandled cuda error") == std::string::npos) {  // ncclUnhandledCudaError: this rank's CUDA
    return std::nullopt;
  }
  return what.find("out of memory") == std::string::npos ? device_fails(first_line(what))
                                                         : out_of_device_memory(first_line(what));
}

std::optional<Caught> catch_exception(const std::function<void()>& work) {
  const auto unless_known = [](const std::exception& error, ErrorKind kind, const std::string& text) {
    std::optional<Error> known = out_of_memory(error);
    if (!known) {
      known = device_error(error);
    }
    return known ? Caught{*known, true} : Caught{fail("", "", library_text(text), "", kind), false};
  };
  try {
    work();
    return std::nullopt;
  } catch (const CollectiveFailure& failure) {
    return Caught{failure.error(), true};
  } catch (const c10::DistError& error) {
    return unless_known(error, ErrorKind::PeerLost, error.what_without_backtrace());
  } catch (const c10::Error& error) {
    return unless_known(error, ErrorKind::Internal, error.what_without_backtrace());
  } catch (const std::logic_error& error) {
    return unless_known(error, ErrorKind::Internal, error.what());
  } catch (const std::system_error& error) {
    return unless_known(error, ErrorKind::Internal, error.what());
  } catch (const std::exception& error) {
    return unless_known(error, ErrorKind::PeerLost, error.what());
  }
}

Result<void> catch_exceptions(const ReportingRank& speaker, const std::string& setting, const std::string& what,
                              const std::string& action, const std::function<void()>& work) {
  const std::optional<Caught> caught = catch_exception(work);
  if (!caught) {
    return {};
  }
  return caught->explained
             ? caught->error
             : fail(setting, speaker.text(), what + ": " + caught->error.reason, action, ErrorKind::PeerLost);
}

}  // namespace rollcall::process_group
