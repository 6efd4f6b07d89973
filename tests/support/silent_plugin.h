#pragma once

#include "trainer/device/plugin.h"

namespace rollcall::testing_support {

/// A plugin of which only its kind of device and its kernels (null: none) are asked for: it has no functions.
inline device::Plugin silent_plugin(c10::DeviceType type, const device::Kernels* kernels) {
  return {.build = "",
          .type = type,
          .backend = "",
          .count = nullptr,
          .open = nullptr,
          .add_backend = nullptr,
          .health_check = nullptr,
          .flight_record = nullptr,
          .capture = nullptr,
          .kernels = kernels};
}

}  // namespace rollcall::testing_support
