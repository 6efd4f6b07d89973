// Declares the names of Gloo's transports that ProcessGroupGloo.hpp uses.
#pragma once

namespace gloo::transport {

class Device;
class UnboundBuffer;

}  // namespace gloo::transport
