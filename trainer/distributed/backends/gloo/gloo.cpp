#include "trainer/distributed/backends/gloo/gloo.h"

#include <cstring>
#include <exception>
#include <string>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <utility>
#include <vector>

#include "trainer/distributed/backends/backends.h"
#include "trainer/distributed/processes/processes.h"

namespace rollcall::process_group {
namespace {

/// A tag that no other messages use. Messages between two ranks keep their order, so one tag is enough for all calls.
constexpr int kTag = 0x7fffffe0;

/// Returns whether all ranks are processes of this host; the same on all of them. Collective.
bool share_a_host(c10d::Store& store, int size, std::chrono::milliseconds timeout) {
  const std::string ranks_here = "ranks of " + process_space();
  store.add(ranks_here, 1);
  if (store.add("ranks", 1) == size) {
    store.set("all ranks", std::vector<std::uint8_t>{1});
  }
  store.wait({"all ranks"}, timeout);
  return !process_space().empty() && store.add(ranks_here, 0) == size;
}

}  // namespace

/// Waits for the messages of an all-gather, and copies the rank's own part to the output meanwhile.
class InPlaceGloo::Gathering final : public AsyncWork {
 public:
  Gathering(std::shared_ptr<gloo::Context> context, const at::Tensor& output, at::Tensor input, int rank,
            std::uint64_t number, std::chrono::milliseconds timeout)
      : AsyncWork(std::move(context), {{output}}, c10d::OpType::_ALLGATHER_BASE, number, timeout),
        output_(output),
        input_(std::move(input)),
        rank_(rank) {}

  [[nodiscard]] const at::Tensor& input() const { return input_; }
  [[nodiscard]] at::Tensor part_of(int rank) const {
    return output_.view(-1).narrow(0, rank * input_.numel(), input_.numel());
  }

  void await(c10::intrusive_ptr<c10d::Work> message) { messages_.push_back(std::move(message)); }
  void fail(std::exception_ptr failure) { failure_ = std::move(failure); }

  void run() override {
    if (failure_) {
      std::rethrow_exception(failure_);
    }
    if (const at::Tensor own = part_of(rank_); own.data_ptr() != input_.data_ptr()) {
      std::memcpy(own.data_ptr(), input_.const_data_ptr(), input_.nbytes());
    }
    try {
      for (const auto& message : messages_) {
        TORCH_CHECK(message->wait(timeout_), "a message of an all-gather was given up");
      }
    } catch (const std::exception&) {
      messages_.clear();  // nothing more arrives in the output
      throw;
    }
  }
  const std::vector<at::Tensor> getInputTensors() override { return {input_}; }
  const std::vector<at::Tensor> getOutputTensors() override { return {output_}; }

 private:
  at::Tensor output_, input_;
  int rank_;
  std::vector<c10::intrusive_ptr<c10d::Work>> messages_;
  std::exception_ptr failure_;
};

InPlaceGloo::InPlaceGloo(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                         const c10::intrusive_ptr<c10d::ProcessGroupGloo::Options>& options)
    : c10d::ProcessGroupGloo(store, rank, size, options), one_host_(share_a_host(*store, size, options->timeout)) {}

void InPlaceGloo::post(Gathering& gathering) {
  const int rank = getRank();
  const int size = getSize();
  for (int distance = 1; distance < size && gathering.input().numel() > 0; ++distance) {
    const int from = (rank + size - distance) % size;  // another one for each rank
    std::vector<at::Tensor> theirs{gathering.part_of(from)};
    std::vector<at::Tensor> mine{gathering.input()};
    gathering.await(recv(theirs, from, kTag));
    gathering.await(send(mine, (rank + distance) % size, kTag));
  }
}

c10::intrusive_ptr<c10d::Work> InPlaceGloo::all_gather_single(at::Tensor& output, at::Tensor& input,
                                                              const c10d::AllgatherOptions& options) {
  if (!one_host_) {
    return ProcessGroupGloo::all_gather_single(output, input, options);
  }
  TORCH_CHECK(output.is_contiguous() && input.is_contiguous(), "all_gather_single: tensors must be contiguous");
  TORCH_CHECK(output.scalar_type() == input.scalar_type() && output.numel() == input.numel() * getSize(),
              "all_gather_single: the output must be ", getSize(), " times the input, and of its type");
  const auto timeout = options.timeout == c10d::kUnsetTimeout ? options_->timeout : options.timeout;
  const auto gathering = c10::make_intrusive<Gathering>(getContext(kTag), output, input, getRank(), ++seq_, timeout);
  try {
    post(*gathering);
  } catch (
      const std::exception&) {  // a connection is closed: the waiting thread gets the error, as for all collectives
    gathering->fail(std::current_exception());
  }
  enqueue(gathering);
  return gathering;
}

namespace {

void add_gloo(c10d::ProcessGroup& group, const c10::intrusive_ptr<c10d::Store>& store, const BackendOptions& options) {
  // create_default() reads GLOO_SOCKET_IFNAME and makes the devices, which the group needs.
  const auto of_gloo = c10d::ProcessGroupGloo::Options::create_default(options.timeout);
  const auto backend = c10::make_intrusive<InPlaceGloo>(c10::make_intrusive<c10d::PrefixStore>("gloo", store),
                                                        group.getRank(), group.getSize(), of_gloo);
  group.setBackend(c10::DeviceType::CPU, c10d::ProcessGroup::BackendType::GLOO,
                   c10::intrusive_ptr<c10d::Backend>(backend));
  group.setDefaultBackend(c10d::ProcessGroup::BackendType::GLOO);
}

}  // namespace

const Backend kGloo{.add = add_gloo};

}  // namespace rollcall::process_group
