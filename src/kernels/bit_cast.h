// std::bit_cast, which the standard library of emscripten 3.1.6 does not have yet.
#pragma once

namespace kvasir::kernels {

// Both types have the same size and are trivially copyable, or it does not compile.
template <typename To, typename From>
constexpr To bit_cast(const From& from) {
  return __builtin_bit_cast(To, from);
}

}  // namespace kvasir::kernels
