// std::bit_cast, which the standard library of emscripten 3.1.6 does not have yet.
#pragma once

#include <type_traits>

namespace kvasir::kernels {

template <typename To, typename From>
  requires(sizeof(To) == sizeof(From) && std::is_trivially_copyable_v<To> &&
           std::is_trivially_copyable_v<From>)
constexpr To bit_cast(const From& from) {
  return __builtin_bit_cast(To, from);
}

}  // namespace kvasir::kernels
