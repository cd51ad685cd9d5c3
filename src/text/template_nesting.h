// A level of nesting that is counted while it lives: of the parser, and of the evaluation.
#pragma once

#include <cstddef>
#include <utility>

namespace kvasir::text {

class Nested {
 public:
  explicit Nested(size_t& depth) : depth_(&depth) { ++depth; }
  Nested(Nested&& other) noexcept : depth_(std::exchange(other.depth_, nullptr)) {}
  Nested(const Nested&) = delete;
  Nested& operator=(const Nested&) = delete;
  ~Nested() {
    if (depth_ != nullptr) --*depth_;
  }

 private:
  size_t* depth_;
};

}  // namespace kvasir::text
