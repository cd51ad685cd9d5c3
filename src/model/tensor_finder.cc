#include "model/tensor_finder.h"

#include <array>
#include <cmath>
#include <span>

namespace kvasir::model {
namespace {

template <typename Dims>
std::string shape_text(const Dims& dims) {
  std::string text;
  for (uint64_t dim : dims) text += fmt::format("{}{}", text.empty() ? "{" : ", ", dim);
  return text + "}";
}

std::string supported_types(bool (*is_supported)(TensorType)) {
  std::string names;
  for (const gguf::TypeInfo& info : gguf::all_types())
    if (is_supported(info.type)) names += fmt::format("{}{}", names.empty() ? "" : ", ", info.name);
  return names;
}

}  // namespace

Result<const gguf::TensorView*> TensorFinder::find(const std::string& name,
                                                   std::initializer_list<uint32_t> dims) {
  const gguf::TensorView* tensor = file_.find(name);
  if (tensor == nullptr) return Error::not_found("tensor '{}' is missing", name);
  used_.insert(tensor->info->name);
  std::array<uint64_t, 4> expected = {1, 1, 1, 1};
  std::copy(dims.begin(), dims.end(), expected.begin());
  if (tensor->info->dims != expected)
    return Error::corrupt("tensor '{}': has shape {}, the metadata imply {}", name,
                          shape_text(std::span(tensor->info->dims).first(tensor->info->n_dims)),
                          shape_text(dims));
  return tensor;
}

Result<const gguf::TensorView*> TensorFinder::find_weight(const std::string& base,
                                                          std::initializer_list<uint32_t> dims) {
  KVASIR_TRY(const gguf::TensorView* tensor, find(base + ".weight", dims));
  const TensorType type = tensor->info->type;
  if (is_supported_ != nullptr && !is_supported_(type))
    return Error::unsupported("tensor '{}': type {} cannot be computed", tensor->info->name,
                              gguf::type_info(type).name)
        .with_hint("types that can: " + supported_types(is_supported_));
  // They change the product; ignoring them as extra tensors would give plausible nonsense.
  for (std::string_view companion : {".scale", ".input_scale", ".bias"})
    if (contains(base + std::string(companion)))
      return Error::unsupported("tensor '{}{}': a {} beside the weights is not supported", base,
                                companion, companion == ".bias" ? "bias" : "scale");
  return tensor;
}

Result<Matrix> TensorFinder::matrix(const std::string& base, uint32_t n_in, uint32_t n_out) {
  KVASIR_TRY(const gguf::TensorView* tensor, find_weight(base, {n_in, n_out}));
  Matrix matrix;
  matrix.name = tensor->info->name;
  matrix.type = tensor->info->type;
  matrix.n_in = n_in;
  matrix.n_out = n_out;
  matrix.row_bytes = gguf::row_bytes(matrix.type, n_in);
  matrix.data = tensor->data.data();
  return matrix;
}

Result<ExpertMatrices> TensorFinder::experts(const std::string& base, uint32_t n_in, uint32_t n_out,
                                             uint32_t n_experts) {
  KVASIR_TRY(const gguf::TensorView* tensor, find_weight(base, {n_in, n_out, n_experts}));
  ExpertMatrices experts;
  experts.name = tensor->info->name;
  experts.type = tensor->info->type;
  experts.n_in = n_in;
  experts.n_out = n_out;
  experts.row_bytes = gguf::row_bytes(experts.type, n_in);
  experts.expert_stride = experts.row_bytes * n_out;
  experts.n_experts = n_experts;
  experts.data = tensor->data.data();
  experts.part = tensor->part;
  experts.file_offset = tensor->info->offset;
  // Whoever slices experts relies on it; the shape and the reader's size check imply it.
  KVASIR_CHECK(experts.expert_stride * n_experts == tensor->data.size());
  return experts;
}

Result<Vector> TensorFinder::vector(const std::string& name, std::initializer_list<uint32_t> dims) {
  KVASIR_TRY(const gguf::TensorView* tensor, find(name, dims));
  if (tensor->info->type != TensorType::kF32)
    return Error::unsupported("tensor '{}': is {}, must be F32", name,
                              gguf::type_info(tensor->info->type).name)
        .with_hint(
            "converters keep norms, biases and other vectors in F32: convert the model again");
  const std::byte* bytes = tensor->data.data();
  // The reader's alignment is at least 8 and mappings start at a page.
  KVASIR_CHECK(reinterpret_cast<uintptr_t>(bytes) % alignof(float) == 0);
  Vector vector;
  vector.name = name;
  vector.data = reinterpret_cast<const float*>(bytes);
  vector.size = static_cast<uint32_t>(tensor->data.size() / sizeof(float));
  if (vector_check_ == VectorCheck::kNone) return vector;
  for (uint32_t i = 0; i < vector.size; ++i)
    if (!std::isfinite(vector.data[i]))
      return Error::corrupt("tensor '{}': value {} is not finite", name, i);
  return vector;
}

std::vector<std::string> TensorFinder::unused() const {
  std::vector<std::string> names;
  for (const gguf::TensorView& tensor : file_.tensors())
    if (!used_.contains(tensor.info->name)) names.push_back(tensor.info->name);
  return names;
}

Matrix rows_of(const Matrix& matrix, uint32_t first, uint32_t count) {
  KVASIR_CHECK(uint64_t{first} + count <= matrix.n_out);
  Matrix rows = matrix;
  rows.n_out = count;
  rows.data += first * matrix.row_bytes;
  return rows;
}

ExpertMatrices rows_of(const ExpertMatrices& experts, uint32_t first, uint32_t count) {
  KVASIR_CHECK(uint64_t{first} + count <= experts.n_out);
  ExpertMatrices rows = experts;
  rows.n_out = count;
  rows.data += first * experts.row_bytes;
  rows.file_offset += first * experts.row_bytes;
  return rows;
}

}  // namespace kvasir::model
