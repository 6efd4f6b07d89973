// Included by ProcessGroupGloo.hpp, which needs nothing of it.
#pragma once
