// "SipHash: a fast short-input PRF", J.-P. Aumasson and D. J. Bernstein, 2012.
#include "base/keyed_hash.h"

#include <bit>
#include <random>

#include "base/bytes.h"

namespace kvasir {
namespace {

struct State {
  uint64_t v0, v1, v2, v3;

  void round() {
    v0 += v1;
    v2 += v3;
    v1 = std::rotl(v1, 13) ^ v0;
    v3 = std::rotl(v3, 16) ^ v2;
    v0 = std::rotl(v0, 32) + v3;
    v2 += v1;
    v3 = std::rotl(v3, 21) ^ v0;
    v1 = std::rotl(v1, 17) ^ v2;
    v2 = std::rotl(v2, 32);
  }

  void absorb(uint64_t word) {
    v3 ^= word;
    round();
    round();
    v0 ^= word;
  }
};

HashKey random_key() {
  std::random_device device;
  const auto word = [&] { return uint64_t{device()} << 32 | device(); };
  const uint64_t low = word();
  return {low, word()};
}

}  // namespace

uint64_t sip_hash(HashKey key, std::string_view text) {
  State state = {key.low ^ 0x736f6d6570736575, key.high ^ 0x646f72616e646f6d,
                 key.low ^ 0x6c7967656e657261, key.high ^ 0x7465646279746573};
  uint64_t last = uint64_t{text.size()} << 56;
  for (; text.size() >= sizeof(uint64_t); text.remove_prefix(sizeof(uint64_t)))
    state.absorb(load_le<uint64_t>(bytes_of(text).data()));
  for (size_t i = 0; i < text.size(); ++i)
    last |= uint64_t{static_cast<unsigned char>(text[i])} << (8 * i);
  state.absorb(last);
  state.v2 ^= 0xff;
  for (int i = 0; i < 4; ++i) state.round();
  return state.v0 ^ state.v1 ^ state.v2 ^ state.v3;
}

uint64_t keyed_hash(std::string_view text) {
  static const HashKey key = random_key();
  return sip_hash(key, text);
}

}  // namespace kvasir
