#pragma once

#include <ucp/api/ucp.h>
#include <cstdint>
#include <memory>
#include <vector>

#include "trainer/distributed/algorithms/transport.h"
#include "trainer/distributed/backends/ucx/engine/peers.h"

namespace rollcall::process_group::ucx {

/// UCP's 64-bit tags: kind (2 bits), generation of the group (14), source rank (16), name (32). The generation keeps a
/// late message of a group that was given up out of its successor.
class Tags {
 public:
  static constexpr std::uint64_t kWhole = ~std::uint64_t{0};
  static constexpr std::uint64_t kFromAnybody = ~(std::uint64_t{0xffff} << 32);

  explicit Tags(std::uint32_t generation) : generation_(std::uint64_t{generation & 0x3fffU} << 48) {}

  /// Numbers wrap around at 2^16: only messages that may be under way together need different names.
  [[nodiscard]] std::uint64_t collective(std::uint32_t source, MessageName name) const {
    return tag(0, source, (name.operation & 0xffffU) << 16 | (name.message & 0xffffU));
  }
  [[nodiscard]] std::uint64_t point_to_point(std::uint32_t source, std::uint32_t user_tag) const {
    return tag(1, source, user_tag);
  }
  [[nodiscard]] std::uint64_t notice(std::uint32_t source) const { return tag(2, source, 0); }

  [[nodiscard]] static std::uint32_t source_of(std::uint64_t tag) {
    return static_cast<std::uint32_t>(tag >> 32) & 0xffffU;
  }

 private:
  [[nodiscard]] std::uint64_t tag(std::uint64_t kind, std::uint64_t source, std::uint32_t name) const {
    return kind << 62 | generation_ | (source & 0xffffU) << 32 | name;
  }

  std::uint64_t generation_;
};

/// A worker's messages under way, from the post to the end. What goes wrong with one is told to the Peers. One thread
/// at a time.
class Messages {
 public:
  /// `peers` outlives it.
  explicit Messages(Peers& peers) : peers_(peers) {}
  Messages(const Messages&) = delete;
  Messages& operator=(const Messages&) = delete;
  /// Nothing is under way any more: see release_all().
  ~Messages() = default;

  [[nodiscard]] Request send(ucp_ep_h endpoint, std::uint32_t peer, std::uint64_t tag, const void* data,
                             std::size_t bytes);
  /// From whoever has a tag of which `mask` agrees; `peer` is at fault where it fails.
  [[nodiscard]] Request receive(ucp_worker_h worker, std::uint32_t peer, std::uint64_t tag, std::uint64_t mask,
                                void* data, std::size_t bytes);
  [[nodiscard]] RequestState test(Request request);
  /// Of the receive that test() called done last.
  [[nodiscard]] std::uint32_t last_source() const { return last_source_; }

  static void cancel(ucp_worker_h worker, Request request);
  /// All receives but that one: what was posted leaves its memory alone from now on.
  void cancel_receives(ucp_worker_h worker, Request but);
  /// Forgets what is still under way, before its worker is destroyed.
  void release_all();

 private:
  /// `place` is its index in live_.
  struct Message {
    void* ucp_request;  ///< null: it could not be posted
    std::uint32_t peer;
    std::size_t bytes;
    bool receives;
    std::size_t place;
  };

  [[nodiscard]] Request keep(ucs_status_ptr_t ucp_request, std::uint32_t peer, std::size_t bytes, bool receives);
  void release(Message* message);

  Peers& peers_;
  std::vector<std::unique_ptr<Message>> live_;
  std::uint32_t last_source_ = 0;
};

}  // namespace rollcall::process_group::ucx
