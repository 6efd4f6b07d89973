#include "trainer/train/outcome.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace rollcall::train {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

std::vector<Error> not_finite(bool has_checkpoint) {
  return {loss_not_finite(1, 7, has_checkpoint, false), validation_not_finite(1, 7, has_checkpoint),
          gradients_not_finite("fc.weight", 3, 7, has_checkpoint), state_not_finite("fc.weight", 7, has_checkpoint)};
}

TEST(NotFinite, BeforeTheFirstCheckpointNothingAdvisesToResume) {
  for (const Error& error : not_finite(false)) {
    EXPECT_EQ(error.kind, ErrorKind::BadData);
    EXPECT_THAT(error.text(), EndsWith(", and there is no checkpoint yet; try lowering --lr, or --warmup-epochs=1"));
  }
}

TEST(NotFinite, WithACheckpointTheAdviceIsToResume) {
  for (const Error& error : not_finite(true)) {
    EXPECT_EQ(error.kind, ErrorKind::BadData);
    EXPECT_THAT(error.action, HasSubstr("--resume="));
    EXPECT_THAT(error.reason, Not(HasSubstr("no checkpoint yet")));
  }
}

}  // namespace
}  // namespace rollcall::train
