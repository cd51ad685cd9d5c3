// Cursors over the body of a frame. Reading is strict: the first thing that is missing or forbidden
// makes the whole body malformed, and so does anything left at the end.
#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"

namespace kvasir::wire {

// Reads on with zeros after a failure; finish() tells. Check a count that was read before
// looping over it: it is bounded by its own type only.
class BodyReader {
 public:
  // `what` is the frame's name, for messages.
  BodyReader(std::string_view what, ByteSpan body) : what_(what), body_(body) {}

  template <typename T>
  T number() {
    T value{};
    if (const std::byte* from = take(sizeof(T))) value = load_le<T>(from);
    return value;
  }
  uint8_t u8() { return number<uint8_t>(); }
  uint16_t u16() { return number<uint16_t>(); }
  uint32_t u32() { return number<uint32_t>(); }
  uint64_t u64() { return number<uint64_t>(); }

  template <size_t N>
  std::array<std::byte, N> array() {
    std::array<std::byte, N> value{};
    if (const std::byte* from = take(N)) std::copy_n(from, N, value.begin());
    return value;
  }
  // Empty if there are fewer.
  ByteSpan bytes(uint64_t n) {
    const std::byte* from = take(n);
    return from != nullptr ? ByteSpan(from, static_cast<size_t>(n)) : ByteSpan();
  }
  // Length as u8, then printable ASCII: it may go into logs and pages as it is.
  std::string text(size_t bytes_max) {
    const uint8_t length = u8();
    require(length <= bytes_max, "a text is too long");
    const std::string_view text = text_of(bytes(length));
    require(std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; }),
            "a text holds a byte that is not printable ASCII");
    return std::string(text);
  }
  // Reserved bytes are zero.
  void zeros(size_t n) {
    for (size_t i = 0; i < n; ++i) require(u8() == 0, "a reserved byte is not zero");
  }

  // `problem` says what is wrong if `good` is not so. The first problem counts.
  void require(bool good, std::string_view problem) {
    if (!good && problem_.empty()) problem_ = problem;
  }
  bool ok() const { return problem_.empty(); }
  size_t left() const { return body_.size() - at_; }
  // What was read so far.
  ByteSpan seen() const { return body_.first(at_); }

  Error error() const { return Error::corrupt("{}: {}", what_, problem_); }
  Result<void> finish() {
    require(left() == 0, "bytes follow its end");
    if (!ok()) return error();
    return {};
  }

 private:
  const std::byte* take(uint64_t n) {
    require(n <= left(), "it ends too early");
    if (!ok()) return nullptr;
    const std::byte* from = body_.data() + at_;
    at_ += static_cast<size_t>(n);
    return from;
  }

  std::string_view what_;
  ByteSpan body_;
  size_t at_ = 0;
  std::string problem_;
};

class BodyWriter {
 public:
  template <typename T>
  BodyWriter& number(T value) {
    const size_t at = body_.size();
    body_.resize(at + sizeof value);
    store_le(body_.data() + at, value);
    return *this;
  }
  BodyWriter& u8(uint8_t value) { return number(value); }
  BodyWriter& u16(uint16_t value) { return number(value); }
  BodyWriter& u32(uint32_t value) { return number(value); }
  BodyWriter& u64(uint64_t value) { return number(value); }
  BodyWriter& bytes(ByteSpan bytes) {
    body_.insert(body_.end(), bytes.begin(), bytes.end());
    return *this;
  }
  BodyWriter& text(std::string_view text) {
    KVASIR_CHECK(text.size() <= 255);
    return u8(static_cast<uint8_t>(text.size())).bytes(bytes_of(text));
  }
  BodyWriter& zeros(size_t n) {
    body_.resize(body_.size() + n);
    return *this;
  }
  std::vector<std::byte> take() { return std::move(body_); }

 private:
  std::vector<std::byte> body_;
};

}  // namespace kvasir::wire
