#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include "runtime/rendezvous/secret.h"

namespace rollcall {

/// A file with a secret, for setting rendezvous.secret: of all ranks that one test program plays, and of the user's
/// home nothing.
inline const std::string& secret_file() {
  static const std::string path = [] {
    std::string name = testing::TempDir() + "rollcall-secret-XXXXXX";
    const int file = mkostemp(name.data(), O_CLOEXEC);
    const std::string text = rendezvous::draw_secret();
    EXPECT_EQ(write(file, text.data(), text.size()), static_cast<ssize_t>(text.size()));
    close(file);
    return name;
  }();
  return path;
}

}  // namespace rollcall
