#include "runtime/doctor/wire/hub.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <optional>

#include "runtime/doctor/wire/message.h"

namespace rollcall::doctor {
namespace {

/// A rank whose connection broke may come again on another one: it gives up an endpoint that is slow to answer.
constexpr std::chrono::seconds kGrace{2};

constexpr const char* kGone = "its connection ended: the process was killed or failed";

}  // namespace

Hub::Hub(std::vector<rendezvous::Listener> listeners, std::string step, std::uint32_t world_size)
    : listeners_(std::move(listeners)), step_(std::move(step)), world_size_(world_size) {
  for (const rendezvous::Listener& listener : listeners_) {
    fcntl(listener.descriptor(), F_SETFL, fcntl(listener.descriptor(), F_GETFL) | O_NONBLOCK);
  }
}

void Hub::accept_waiting() {
  for (const rendezvous::Listener& listener : listeners_) {
    while (true) {
      const int descriptor = accept4(listener.descriptor(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
      if (descriptor < 0) {
        break;
      }
      strangers_.emplace_back(descriptor);
    }
  }
}

void Hub::greet(Socket& stranger, const std::string& text) {
  const std::optional<Greeting> greeting = parse_greeting(text);
  Socket guest = std::move(stranger);
  if (!greeting || greeting->step != step_ || greeting->rank == 0 || greeting->rank >= world_size_) {
    return;
  }
  // A few bytes into an empty socket buffer: this does not wait.
  const bool told = guest.send_frame(to_text(Greeting{step_, 0, greeting->probe}), Clock::now()).has_value();
  if (told && !greeting->probe) {
    losses_.erase(greeting->rank);
    guests_.insert_or_assign(greeting->rank, std::move(guest));
  }
}

void Hub::hear_strangers(std::map<std::uint32_t, std::string>& reports) {
  for (Socket& stranger : strangers_) {
    const bool alive = stranger.take_arrived();
    if (const std::optional<std::string> text = stranger.frames().next()) {
      greet(stranger, *text);
    } else if (!alive || stranger.frames().broken()) {
      stranger = Socket();
    }
  }
  std::erase_if(strangers_, [](const Socket& stranger) { return !stranger.is_open(); });
  hear_guests(reports);
}

void Hub::hear_guests(std::map<std::uint32_t, std::string>& answers) {
  for (auto guest = guests_.begin(); guest != guests_.end();) {
    auto& [rank, socket] = *guest;
    const bool alive = socket.take_arrived();
    if (std::optional<std::string> text = socket.frames().next()) {
      answers.insert_or_assign(rank, *std::move(text));
    }
    if (!alive || socket.frames().broken()) {
      losses_.insert_or_assign(rank, kGone);
      last_loss_ = Clock::now();
      guest = guests_.erase(guest);
    } else {
      ++guest;
    }
  }
}

void Hub::wait(Clock::time_point deadline, bool newcomers) const {
  std::vector<pollfd> waiting;
  for (const rendezvous::Listener& listener : listeners_) {
    waiting.push_back({newcomers ? listener.descriptor() : -1, POLLIN, 0});
  }
  for (const Socket& stranger : strangers_) {
    waiting.push_back({newcomers ? stranger.descriptor() : -1, POLLIN, 0});
  }
  for (const auto& [rank, socket] : guests_) {
    waiting.push_back({socket.descriptor(), POLLIN, 0});
  }
  poll(waiting.data(), waiting.size(), milliseconds_until(deadline));
}

bool Hub::all_accounted_for(const std::map<std::uint32_t, std::string>& reports) const {
  std::size_t silent = 0;
  for (const auto& [rank, reason] : losses_) {
    silent += reports.contains(rank) ? 0 : 1;
  }
  const bool given_up = silent == 0 || Clock::now() > last_loss_ + kGrace;
  return reports.size() + silent + 1 >= world_size_ && given_up;
}

std::map<std::uint32_t, std::string> Hub::gather(Clock::time_point deadline) {
  std::map<std::uint32_t, std::string> reports;
  while (!all_accounted_for(reports) && Clock::now() < deadline) {
    const bool in_grace = Clock::now() < last_loss_ + kGrace;
    wait(in_grace ? std::min(deadline, last_loss_ + kGrace) : deadline, true);
    accept_waiting();
    hear_strangers(reports);
  }
  return reports;
}

void Hub::tell(const std::map<std::uint32_t, std::string>& texts, Clock::time_point deadline) {
  for (const auto& [rank, text] : texts) {
    const auto guest = guests_.find(rank);
    if (guest != guests_.end() && !guest->second.send_frame(text, deadline)) {
      losses_.insert_or_assign(rank, kGone);
      guests_.erase(guest);
    }
  }
}

std::map<std::uint32_t, std::string> Hub::ask(const std::map<std::uint32_t, std::string>& texts,
                                              Clock::time_point deadline, const std::function<void()>& meanwhile) {
  tell(texts, deadline);
  if (meanwhile) {
    meanwhile();
  }
  std::map<std::uint32_t, std::string> answers;
  const auto awaited = [&] {
    return std::ranges::any_of(
        texts, [&](const auto& entry) { return guests_.contains(entry.first) && !answers.contains(entry.first); });
  };
  while (awaited() && Clock::now() < deadline) {
    wait(deadline, false);
    hear_guests(answers);
  }
  for (const auto& [rank, text] : texts) {
    if (guests_.contains(rank) && !answers.contains(rank)) {
      losses_.insert_or_assign(rank, "it did not answer in time");
    }
  }
  return answers;
}

}  // namespace rollcall::doctor
