// Where an identity is kept: a file with the seed as 64 hex digits, readable by its owner alone.
#pragma once

#include <string>

#include "base/error.h"
#include "crypto/identity.h"

namespace kvasir::crypto {

// Reads the identity, or makes a new one and writes it if there is no file. Two processes that
// start at once get the same one. Fails with kCorrupt if the file holds something else, kInvalid if
// others may read it, kIo otherwise.
Result<Identity> load_or_create_identity(const std::string& path);

}  // namespace kvasir::crypto
