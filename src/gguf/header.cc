// GGUF v2 and v3, all numbers little-endian:
//
//   file    := "GGUF" u32 version, u64 n_tensors, u64 n_keys, key*, tensor*, padding, data
//   key     := string name, u32 value type, value           (value: gguf/metadata.h)
//   tensor  := string name, u32 n_dims, u64 dim{n_dims}, u32 type, u64 offset in the data section
//   string  := u64 length, bytes
//
// The bytes are a stranger's. Every length is compared with what is left before it is used, nothing
// is allocated from a number in the file, and every byte is read once.
#include "gguf/header.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <set>
#include <string_view>

#include "gguf/text_check.h"

namespace kvasir::gguf {
namespace {

// The least a key and a tensor can take: empty name, one-byte value; empty name, one dimension.
constexpr uint64_t kKeyBytesMin = 8 + 4 + 1;
constexpr uint64_t kTensorBytesMin = 8 + 4 + 8 + 4 + 8;
constexpr uint32_t kDimsMax = 4;

// Of a value with a fixed size; 0 for strings and arrays.
uint64_t scalar_bytes(ValueType type) {
  switch (type) {
    case ValueType::kU8:
    case ValueType::kI8:
    case ValueType::kBool:
      return 1;
    case ValueType::kU16:
    case ValueType::kI16:
      return 2;
    case ValueType::kU32:
    case ValueType::kI32:
    case ValueType::kF32:
      return 4;
    case ValueType::kU64:
    case ValueType::kI64:
    case ValueType::kF64:
      return 8;
    case ValueType::kString:
    case ValueType::kArray:
      return 0;
  }
  return 0;
}

constexpr uint32_t kValueTypes = 13;

class Parser {
 public:
  explicit Parser(ByteSpan file) : file_(file) {}

  Result<Header> parse() {
    KVASIR_TRY_VOID(read_preamble());
    for (uint64_t i = 0; i < n_keys_; ++i) KVASIR_TRY_VOID(read_key(i));
    place_ = "header";
    KVASIR_TRY_VOID(read_alignment());
    for (uint64_t i = 0; i < n_tensors_; ++i) KVASIR_TRY_VOID(read_tensor(i));
    KVASIR_TRY_VOID(place_tensors());
    KVASIR_TRY_VOID(check_overlaps());
    return std::move(header_);
  }

 private:
  Result<void> read_preamble();
  Result<void> read_key(uint64_t index);
  Result<Value> read_value();
  Result<void> read_array(Value& value);
  Result<void> read_alignment();
  Result<void> read_tensor(uint64_t index);
  Result<void> place_tensors();
  Result<void> check_overlaps();

  uint64_t left() const { return file_.size() - pos_; }

  // Everything that is read goes through here: are there `bytes` more, in the file and in our
  // limit?
  Result<void> need(uint64_t bytes, std::string_view what) const {
    if (bytes > left())
      return Error::corrupt("{} at byte {}: {} needs {} bytes, but the file ends after {}", place_,
                            pos_, what, bytes, left());
    if (bytes > kHeaderBytesMax - std::min(pos_, kHeaderBytesMax))
      return Error::limit("{} at byte {}: the header is longer than {} bytes", place_, pos_,
                          kHeaderBytesMax);
    return {};
  }

  // The next `bytes`; the caller has asked need().
  ByteSpan take(uint64_t bytes) {
    ByteSpan taken = file_.subspan(static_cast<size_t>(pos_), static_cast<size_t>(bytes));
    pos_ += bytes;
    return taken;
  }

  template <typename T>
  Result<T> read(std::string_view what) {
    KVASIR_TRY_VOID(need(sizeof(T), what));
    return load_le<T>(take(sizeof(T)).data());
  }

  Result<std::string_view> read_string(std::string_view what, uint64_t bytes_max) {
    uint64_t at = pos_;
    KVASIR_TRY(auto length, read<uint64_t>(what));
    if (length > left())
      return Error::corrupt("{} at byte {}: {} is {} bytes long, but only {} are left", place_, at,
                            what, length, left());
    if (length > bytes_max)
      return Error::limit("{} at byte {}: {} is {} bytes long, more than {}", place_, at, what,
                          length, bytes_max);
    KVASIR_TRY_VOID(need(length, what));
    return text_of(take(length));
  }

  // A name that we compare and show.
  Result<std::string_view> read_name(std::string_view what, uint64_t bytes_max) {
    uint64_t at = pos_;
    KVASIR_TRY(auto name, read_string(what, bytes_max));
    if (!is_text(name))
      return Error::corrupt("{} at byte {}: {} '{}' is not valid UTF-8 or holds a NUL", place_, at,
                            what, printable(name));
    return name;
  }

  Result<ValueType> read_value_type(std::string_view what) {
    uint64_t at = pos_;
    KVASIR_TRY(auto id, read<uint32_t>(what));
    if (id >= kValueTypes)
      return Error::corrupt("{} at byte {}: {} {} does not exist", place_, at, what, id);
    return static_cast<ValueType>(id);
  }

  ByteSpan file_;
  uint64_t pos_ = 0;
  std::string place_ = "header";  // what is being read, for messages
  uint64_t n_keys_ = 0;
  uint64_t n_tensors_ = 0;
  Header header_;
  std::set<std::string_view> tensor_names_;  // ordered: a hash could be made to collide
  std::vector<uint64_t> tensor_at_;          // where each tensor is described
};

Result<void> Parser::read_preamble() {
  constexpr std::string_view kMagic = "GGUF";
  KVASIR_TRY_VOID(need(kMagic.size(), "the magic"));
  std::string_view magic = text_of(take(kMagic.size()));
  if (magic != kMagic)
    return Error::corrupt("header at byte 0: not a GGUF file, it starts with '{}' instead of '{}'",
                          printable(magic), kMagic);

  KVASIR_TRY(header_.version, read<uint32_t>("the version"));
  if (header_.version != 0 && (header_.version & 0xffff) == 0)
    return Error::unsupported("header at byte 4: this is a big-endian file")
        .with_hint("convert it to little-endian, or download the little-endian one");
  if (header_.version != 2 && header_.version != 3)
    return Error::unsupported("header at byte 4: GGUF version {} is not supported, only 2 and 3",
                              header_.version)
        .with_hint("convert the model again with a current converter");

  KVASIR_TRY(n_tensors_, read<uint64_t>("the number of tensors"));
  KVASIR_TRY(n_keys_, read<uint64_t>("the number of keys"));
  if (n_keys_ > left() / kKeyBytesMin)
    return Error::corrupt("header at byte 16: {} keys do not fit the {} bytes left", n_keys_,
                          left());
  if (n_keys_ > kKeysMax)
    return Error::limit("header at byte 16: {} keys are more than {}", n_keys_, kKeysMax);
  if (n_tensors_ > left() / kTensorBytesMin)
    return Error::corrupt("header at byte 8: {} tensors do not fit the {} bytes left", n_tensors_,
                          left());
  if (n_tensors_ > kTensorsMax)
    return Error::limit("header at byte 8: {} tensors are more than {}", n_tensors_, kTensorsMax);
  return {};
}

Result<void> Parser::read_key(uint64_t index) {
  uint64_t at = pos_;
  place_ = fmt::format("key {} of {}", index + 1, n_keys_);
  KVASIR_TRY(auto key, read_name("its name", kKeyBytesMax));
  place_ = fmt::format("key '{}'", printable(key));
  KVASIR_TRY(auto value, read_value());
  value.key = key;
  if (!header_.metadata.add(value))
    return Error::corrupt("{} at byte {}: the key is there twice", place_, at);
  return {};
}

Result<Value> Parser::read_value() {
  Value value = {};
  KVASIR_TRY(value.type, read_value_type("value type"));
  value.element_type = value.type;
  value.count = 1;
  value.offset = pos_;
  if (value.type == ValueType::kString) {
    KVASIR_TRY(auto text, read_string("the string", kStringBytesMax));
    value.bytes = bytes_of(text);
  } else if (value.type == ValueType::kArray) {
    KVASIR_TRY_VOID(read_array(value));
  } else {
    KVASIR_TRY_VOID(need(scalar_bytes(value.type), "the value"));
    value.bytes = take(scalar_bytes(value.type));
  }
  return value;
}

Result<void> Parser::read_array(Value& value) {
  KVASIR_TRY(value.element_type, read_value_type("array element type"));
  if (value.element_type == ValueType::kArray)
    return Error::corrupt("{} at byte {}: an array of arrays is not allowed", place_, value.offset);
  KVASIR_TRY(value.count, read<uint64_t>("the array's length"));
  bool strings = value.element_type == ValueType::kString;
  uint64_t element_bytes_min = strings ? sizeof(uint64_t) : scalar_bytes(value.element_type);
  if (value.count > left() / element_bytes_min)
    return Error::corrupt("{} at byte {}: an array of {} {} values does not fit the {} bytes left",
                          place_, value.offset, value.count, value_type_name(value.element_type),
                          left());
  if (value.count > kArrayCountMax)
    return Error::limit("{} at byte {}: an array of {} values is longer than {}", place_,
                        value.offset, value.count, kArrayCountMax);
  if (!strings) {
    uint64_t bytes = value.count * element_bytes_min;
    KVASIR_TRY_VOID(need(bytes, "the array"));
    value.bytes = take(bytes);
    return {};
  }
  auto begin = static_cast<size_t>(pos_);
  for (uint64_t i = 0; i < value.count; ++i)
    KVASIR_TRY_VOID(read_string("a string of the array", kStringBytesMax));
  value.bytes = file_.subspan(begin, static_cast<size_t>(pos_) - begin);
  return {};
}

Result<void> Parser::read_alignment() {
  const Value* value = header_.metadata.find("general.alignment");
  if (value == nullptr) return {};
  if (value->type != ValueType::kU32)
    return Error::corrupt("key 'general.alignment' at byte {}: is {}, but must be u32",
                          value->offset, value_type_name(value->type));
  uint64_t alignment = load_le<uint32_t>(value->bytes.data());
  if (!std::has_single_bit(alignment) || alignment < kAlignmentMin || alignment > kAlignmentMax)
    return Error::corrupt(
        "key 'general.alignment' at byte {}: {} is not a power of two from {} to {}", value->offset,
        alignment, kAlignmentMin, kAlignmentMax);
  header_.alignment = alignment;
  return {};
}

Result<void> Parser::read_tensor(uint64_t index) {
  uint64_t at = pos_;
  TensorInfo tensor;
  place_ = fmt::format("tensor {} of {}", index + 1, n_tensors_);
  KVASIR_TRY(auto name, read_name("its name", kTensorNameBytesMax));
  place_ = fmt::format("tensor '{}'", printable(name));
  tensor.name = name;
  if (!tensor_names_.insert(name).second)
    return Error::corrupt("{} at byte {}: the name is there twice", place_, at);

  uint64_t dims_at = pos_;
  KVASIR_TRY(tensor.n_dims, read<uint32_t>("the number of dimensions"));
  if (tensor.n_dims < 1 || tensor.n_dims > kDimsMax)
    return Error::corrupt("{} at byte {}: has {} dimensions instead of 1 to {}", place_, dims_at,
                          tensor.n_dims, kDimsMax);
  for (uint32_t i = 0; i < tensor.n_dims; ++i) {
    uint64_t dim_at = pos_;
    KVASIR_TRY(tensor.dims[i], read<uint64_t>("a dimension"));
    if (tensor.dims[i] == 0)
      return Error::corrupt("{} at byte {}: dimension {} is 0", place_, dim_at, i);
  }

  uint64_t type_at = pos_;
  KVASIR_TRY(auto type_id, read<uint32_t>("the type"));
  const TypeInfo* type = find_type(type_id);
  if (type == nullptr)
    return Error::unsupported("{} at byte {}: type {} is not known here", place_, type_at, type_id)
        .with_hint("convert or quantise the model to a standard type such as Q4_K_M");
  tensor.type = type->type;
  if (tensor.dims[0] % type->block_length != 0)
    return Error::corrupt("{} at byte {}: rows of {} values are not whole blocks of {} ({})",
                          place_, dims_at, tensor.dims[0], type->block_length, type->name);

  std::optional<uint64_t> bytes =
      checked_mul(tensor.dims[0] / type->block_length, type->block_bytes);
  for (size_t i = 1; i < tensor.dims.size() && bytes; ++i)
    bytes = checked_mul(*bytes, tensor.dims[i]);
  if (!bytes)
    return Error::corrupt("{} at byte {}: its size [{}, {}, {}, {}] does not fit 64 bits", place_,
                          dims_at, tensor.dims[0], tensor.dims[1], tensor.dims[2], tensor.dims[3]);
  tensor.bytes = *bytes;

  uint64_t offset_at = pos_;
  KVASIR_TRY(tensor.offset, read<uint64_t>("the offset"));
  if (tensor.offset % header_.alignment != 0)
    return Error::corrupt("{} at byte {}: offset {} is not a multiple of the alignment {}", place_,
                          offset_at, tensor.offset, header_.alignment);
  header_.tensors.push_back(std::move(tensor));
  tensor_at_.push_back(at);
  return {};
}

// Turns offsets in the data section into offsets in the file, now that it is known where that
// starts.
Result<void> Parser::place_tensors() {
  // pos_ is at most kHeaderBytesMax, so rounding it up cannot wrap.
  header_.data_offset = *checked_round_up(pos_, header_.alignment);
  if (header_.tensors.empty()) {
    // Nobody has to pad a header that nothing follows.
    header_.data_offset = std::min<uint64_t>(header_.data_offset, file_.size());
    return {};
  }
  if (header_.data_offset > file_.size())
    return Error::corrupt(
        "header at byte {}: the data section starts at byte {}, but the file has {}", pos_,
        header_.data_offset, file_.size());
  uint64_t data_bytes = file_.size() - header_.data_offset;
  for (size_t i = 0; i < header_.tensors.size(); ++i) {
    TensorInfo& tensor = header_.tensors[i];
    if (tensor.offset > data_bytes || tensor.bytes > data_bytes - tensor.offset)
      return Error::corrupt(
                 "tensor '{}' at byte {}: {} bytes at offset {} do not fit the data section of {} "
                 "bytes",
                 printable(tensor.name), tensor_at_[i], tensor.bytes, tensor.offset, data_bytes)
          .with_hint("the file may be cut off: download it again");
    tensor.offset += header_.data_offset;
  }
  return {};
}

// Also counts what lies between the tensors.
Result<void> Parser::check_overlaps() {
  const std::vector<TensorInfo>& tensors = header_.tensors;
  std::vector<size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return tensors[a].offset < tensors[b].offset; });
  uint64_t end = header_.data_offset;
  // Neither sum can wrap: an extent ends inside the file.
  auto gap_before = [&](uint64_t next) {
    uint64_t padded_end = *checked_round_up(end, header_.alignment);
    return next > padded_end ? next - padded_end : 0;
  };
  for (size_t i = 0; i < order.size(); ++i) {
    const TensorInfo& tensor = tensors[order[i]];
    if (tensor.offset < end)
      return Error::corrupt("tensor '{}' at byte {}: its data at byte {} overlaps that of '{}'",
                            printable(tensor.name), tensor_at_[order[i]], tensor.offset,
                            printable(tensors[order[i - 1]].name));
    header_.unused_bytes += gap_before(tensor.offset);
    end = tensor.offset + tensor.bytes;
  }
  header_.unused_bytes += gap_before(file_.size());
  return {};
}

}  // namespace

Result<Header> parse_header(ByteSpan file) {
  return Parser(file).parse();
}

}  // namespace kvasir::gguf
