#include "runtime/hooks/plugin_link.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "runtime/contract/hook_wire.h"

namespace rollcall::hooks {
namespace {

/// Splits "NAME=VALUE" at the first '='; two empty texts where there is none.
std::pair<std::string, std::string> parts_of(const std::string& entry) {
  const std::size_t equals = entry.find('=');
  return equals == entry.npos ? std::pair<std::string, std::string>()
                              : std::pair(entry.substr(0, equals), entry.substr(equals + 1));
}

}  // namespace

std::optional<std::string> Request::item(std::string_view name) const {
  const auto found = items.find(name);
  return found == items.end() ? std::nullopt : std::optional(found->second);
}

std::optional<std::string_view> PluginLink::receive_bytes(std::size_t size) {
  constexpr std::size_t kAtOnce = 16384;  // enough for most environments, and no more than came is kept
  while (received_.size() - taken_ < size) {
    received_.erase(0, std::exchange(taken_, 0));
    const std::size_t before = received_.size();
    received_.resize(before + kAtOnce);
    const ssize_t got = ::recv(socket_, received_.data() + before, received_.size() - before, 0);
    received_.resize(before + static_cast<std::size_t>(std::max<ssize_t>(0, got)));
    if (got == 0 || (got < 0 && errno != EINTR)) {
      return std::nullopt;
    }
  }
  taken_ += size;
  return std::string_view(received_).substr(taken_ - size, size);
}

std::optional<PluginLink::Frame> PluginLink::receive_frame() {
  hook::Header header{};
  const std::optional<std::string_view> head = receive_bytes(sizeof header);
  if (!head) {
    return std::nullopt;
  }
  std::memcpy(&header, head->data(), sizeof header);
  const std::optional<std::string_view> payload = receive_bytes(header.size);
  return payload ? std::optional(Frame{header.kind, std::string(*payload)}) : std::nullopt;
}

std::optional<Request> PluginLink::receive() {
  Request request;
  while (std::optional<Frame> frame = receive_frame()) {
    if (frame->kind == hook::kHook) {
      request.hook = std::move(frame->payload);
      return request;
    }
    auto [name, value] = parts_of(frame->payload);
    if (frame->kind == hook::kVariable && !name.empty() && !request.environment.get(name)) {
      request.environment.set(std::move(name), std::move(value));
    } else if (frame->kind == hook::kItem) {
      request.items.insert_or_assign(std::move(name), std::move(value));
    }
  }
  return std::nullopt;
}

void PluginLink::say(char kind, std::string_view payload) {
  const hook::Header header{kind, static_cast<std::uint32_t>(payload.size())};
  unsent_.append(reinterpret_cast<const char*>(&header), sizeof header).append(payload);
}

void PluginLink::flush() {
  for (std::size_t done = 0; done < unsent_.size();) {
    const ssize_t sent = ::send(socket_, unsent_.data() + done, unsent_.size() - done, MSG_NOSIGNAL);
    if (sent < 0 && errno != EINTR) {
      ::_exit(to_int(ExitCode::Ended));
    }
    done += sent > 0 ? static_cast<std::size_t>(sent) : 0;
  }
  unsent_.clear();
}

void PluginLink::set(std::string_view name, std::string_view value) {
  say(hook::kSet, fmt::format("{}={}", name, value));
}

void PluginLink::unset(std::string_view name) { say(hook::kUnset, name); }

void PluginLink::note(std::string_view line) { say(hook::kNote, line); }

void PluginLink::report(const Error& error) { say(hook::kError, error.message()); }

void PluginLink::set_patience(double seconds) {
  say(hook::kPatience, std::to_string(static_cast<std::int64_t>(seconds) + 1));
  flush();
}

std::string PluginLink::ask(char kind, std::string_view question) {
  say(kind, question);
  flush();
  std::optional<Frame> answer = receive_frame();
  return answer && answer->kind == hook::kReply ? std::move(answer->payload) : "";
}

void PluginLink::end(ExitCode code) {
  say(hook::kEnd, std::to_string(to_int(code)));
  flush();
}

}  // namespace rollcall::hooks
