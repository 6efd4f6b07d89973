#include "runtime/resolve/rendezvous_port.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "runtime/base/text.h"
#include "runtime/contract/env_vars.h"
#include "runtime/resolve/patch_builder.h"

namespace rollcall::resolve {
namespace {

/// Where the ports of job `id` begin, from 0 to `size` - 1: the fraction of id times the golden section, as part of the
/// range. The first N of consecutive ids lie evenly in it, at least size / (2.7 N) - 1 ports apart (Knuth, The Art of
/// Computer Programming, vol. 3, 6.4, theorem S and exercise 9); any others as chance would have it.
std::uint32_t place_of_job(std::uint32_t id, std::uint32_t size) {
  constexpr std::uint64_t kGoldenSection = 0x9e3779b97f4a7c15U;  // of 2^64
  const std::uint64_t fraction = (id * kGoldenSection) >> 32;
  return static_cast<std::uint32_t>((fraction * size) >> 32);
}

/// The port at `index` of a list such as "17500-17503,17600"; beyond its end it begins anew.
Result<std::uint16_t> port_at(const std::string& list, std::uint32_t index) {
  const auto ranges = network::parse_port_list(list);
  if (!ranges || ranges->empty()) {
    return fail("SLURM_STEP_RESV_PORTS", list, "is not a port list", "report it: Slurm sets this variable");
  }
  std::uint32_t count = 0;
  for (const network::PortRange range : *ranges) {
    count += range.size();
  }
  std::uint32_t left = index % count;
  auto range = ranges->begin();
  for (; left >= range->size(); ++range) {
    left -= range->size();
  }
  return static_cast<std::uint16_t>(range->first + left);
}

Result<PortChoice> port_of_ids(const job::JobFacts& facts, network::PortRange range) {
  if (range.first == 0 || range.last < range.first) {
    return fail("port.range", fmt::format("{}-{}", range.first, range.last), "is empty", "set it to, say, 20000-29999");
  }
  const std::uint32_t job = facts.job_id.value_or(facts.port_salt);
  const std::uint32_t step = facts.step_id.value_or(facts.port_salt);
  // A het job has an id for each component, and nobody else's step has them: a further world takes the next one.
  const std::uint64_t place = std::uint64_t{place_of_job(job + facts.world_index, range.size())} + step;
  const auto port = static_cast<std::uint16_t>(range.first + place % range.size());
  return PortChoice{port, fmt::format("place of job {} step {} in port.range", job, step)};
}

/// Only rank 0's host matters. A refusal would leave no range at all to a site whose ephemeral ports are 1024-65535.
void warn_of_ephemeral(const PortChoice& choice, network::PortRange configured, const Inputs& inputs,
                       PatchBuilder& patch) {
  const network::EphemeralPorts& ephemeral = inputs.network.ephemeral_ports;
  if (inputs.facts.rank != 0 || !inputs.facts.reserved_ports.empty() || !ephemeral.contains(choice.port)) {
    return;
  }
  patch.warn(fmt::format(
      "MASTER_PORT: {}: may be in use when rank 0 takes it, for {} gives the ephemeral ports {}-{} to connections; try "
      "a port.range outside of them, or net.ipv4.ip_local_reserved_ports={}-{} on all nodes",
      choice.port, inputs.network.host_name, ephemeral.range.first, ephemeral.range.last, configured.first,
      configured.last));
}

}  // namespace

Result<PortChoice> choose_rendezvous_port(const job::JobFacts& facts, network::PortRange configured) {
  if (facts.reserved_ports.empty()) {
    return port_of_ids(facts, configured);
  }
  const Result<std::uint16_t> reserved = port_at(facts.reserved_ports, facts.world_index);
  if (!reserved) {
    return reserved.error();
  }
  return PortChoice{*reserved, "reserved by Slurm for this step"};
}

Result<void> add_master_port(const Inputs& inputs, PatchBuilder& patch) {
  constexpr std::string_view kRange = "port.range";
  if (const auto value = patch.users(env::kMasterPort);
      value && parse_integer<std::uint16_t>(*value).value_or(0) == 0) {
    return fail("MASTER_PORT", *value, "is no port", "unset it, or a number from 1 to 65535", ExitCode::Usage);
  }
  if (keep_known(env::kMasterPort, kRange, inputs, patch)) {
    return {};
  }
  if (inputs.facts.agreed_port != 0) {
    patch.propose({env::kMasterPort, std::to_string(inputs.facts.agreed_port), "pmix",
                   "rank 0 found it free and told all ranks over PMIx"});
    return {};
  }
  const auto [first, last] = inputs.settings.port_range(kRange);
  const auto choice = choose_rendezvous_port(inputs.facts, {first, last});
  if (!choice) {
    return choice.error();
  }
  warn_of_ephemeral(*choice, {first, last}, inputs, patch);
  const std::string origin = inputs.facts.reserved_ports.empty() ? "setting port.range" : inputs.facts.source;
  patch.propose({env::kMasterPort, std::to_string(choice->port), origin, choice->reason});
  return {};
}

}  // namespace rollcall::resolve
