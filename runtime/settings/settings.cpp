#include "runtime/settings/settings.h"
