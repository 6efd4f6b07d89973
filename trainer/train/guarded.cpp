#include "trainer/train/guarded.h"

#include <torch/torch.h>

#include <exception>
#include <string>
#include <utility>

#include "trainer/distributed/process_group/collective_failure.h"
#include "trainer/distributed/process_group/exceptions.h"

namespace rollcall::train {
namespace {

Error lost_peer_error(const World& world, const std::string& what) {
  return fail("process group", world.backend,
              "a collective failed, so a peer was lost: " + what.substr(0, what.find('\n')),
              "looking for the first rank that ended, in this output and in Slurm's", ExitCode::Unavailable);
}

}  // namespace

Outcome failed(Error error, bool lost_peer) { return Outcome{Ending::Failed, Failure{std::move(error), lost_peer}}; }

std::optional<Outcome> guarded(const World& world, const std::function<void()>& work) {
  try {
    work();
    return std::nullopt;
  } catch (const process_group::CollectiveFailure& failure) {
    return failed(failure.error(), failure.error().exit_code == ExitCode::Unavailable);
  } catch (const c10::DistError& error) {
    return failed(lost_peer_error(world, error.what_without_backtrace()), true);
  } catch (const c10::Error& error) {
    if (const std::optional<Error> memory = process_group::out_of_memory(error)) {
      return failed(*memory);
    }
    const std::string what = error.what_without_backtrace();
    return failed(fail("training step", "", what.substr(0, what.find('\n')), "a smaller --batch-size if memory ran out",
                       ExitCode::Internal));
  } catch (const std::exception& error) {
    if (const std::optional<Error> memory = process_group::out_of_memory(error)) {
      return failed(*memory);
    }
    return failed(lost_peer_error(world, error.what()), true);
  }
}

}  // namespace rollcall::train
