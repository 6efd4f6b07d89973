#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/base/environment.h"
#include "runtime/job/job_facts.h"
#include "runtime/network/network_view.h"
#include "runtime/settings/settings.h"
#include "runtime/storage/cache_folders.h"

namespace rollcall::spank {

/// What became of the folders of a step on one node: looked after once, before its tasks are forked.
struct FoldersOnNode {
  std::vector<storage::RefusedCache> refused = {};  ///< caches that no task of this node gets
  std::optional<std::string> purge_warning = {};    ///< on the head node only
};

/// Makes the caches' folders and looks for files that the site will soon delete, as the job's user. `first` is this
/// node's first task. Never fails: a cache that cannot be made is left alone.
[[nodiscard]] FoldersOnNode prepare_folders(const job::JobFacts& first, const settings::Settings& settings,
                                            const network::NetworkView& network, const Environment& user);

/// What the task with these facts tells about them: rank 0 everything, the first task of another node what concerns its
/// node alone. Pure.
[[nodiscard]] std::vector<std::string> warnings_about(const FoldersOnNode& folders, const job::JobFacts& task);

}  // namespace rollcall::spank
