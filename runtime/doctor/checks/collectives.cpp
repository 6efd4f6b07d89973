#include <fmt/format.h>

#include <algorithm>

#include "runtime/doctor/checks/all.h"
#include "runtime/doctor/checks/group.h"

namespace rollcall::doctor {
namespace {

std::string text_of(const CollectiveRow& row) {
  return fmt::format("{} of {} {:.0f} us, {:.2g} GB/s", row.operation, bytes_text(static_cast<double>(row.bytes)),
                     row.seconds * 1e6, row.gigabytes);
}

/// What `backend` showed.
Finding judge(const std::vector<CollectiveRow>& rows, const std::string& backend) {
  std::string seen;
  for (const CollectiveRow& row : rows) {
    if (row.backend != backend) {
      continue;
    }
    if (!row.correct) {
      return {Status::Bad,
              {},
              fmt::format("{}: {} of {} bytes came out wrong on some rank", backend, row.operation, row.bytes),
              "take another --backend for training, and leave out nodes with --exclude until it comes out right"};
    }
    seen += (seen.empty() ? "" : "; ") + text_of(row);
  }
  return {Status::Good, {}, fmt::format("{}: {}", backend, seen), ""};
}

/// Of a program's message, whose end may say what to do.
Finding failure(const std::string& message) {
  const std::size_t action = message.find("; try ");
  return {Status::Bad,
          {},
          message.substr(0, action),
          action == std::string::npos
              ? "run `srun --ddp rollcall-bench-collectives` with the same options: all ranks say there what they see"
              : message.substr(action + 2)};
}

}  // namespace

Findings check_collectives(const World& world) {
  const Collectives& collectives = world.collectives;
  if (!collectives.error.empty()) {
    return {failure(collectives.error)};
  }
  if (collectives.rows.empty()) {
    return {{Status::Absent, {}, collectives.absent.empty() ? "not measured" : collectives.absent, ""}};
  }
  Findings findings;
  std::vector<std::string> judged;
  for (const CollectiveRow& row : collectives.rows) {
    if (std::ranges::find(judged, row.backend) == judged.end()) {
      judged.push_back(row.backend);
      findings.push_back(judge(collectives.rows, row.backend));
    }
  }
  return findings;
}

}  // namespace rollcall::doctor
