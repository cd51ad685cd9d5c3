// How many frames or events a fuzz target has fed to its subject: what a long run is measured by.
#pragma once

#include <cstdint>

inline uint64_t frames_fed = 0;
