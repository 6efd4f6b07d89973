// What ProcessGroupGloo.hpp mentions of Gloo's transports: names only.
#pragma once

namespace gloo::transport {

class Device;
class UnboundBuffer;

}  // namespace gloo::transport
