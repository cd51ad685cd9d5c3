// Finds the tensors of one model file by name, checks shape and type against what the model needs,
// and remembers which were asked for. Knows nothing of layers.
#pragma once

#include <initializer_list>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "gguf/model_file.h"
#include "model/model.h"

namespace kvasir::model {

// One thread. The file outlives it; the views it returns live as long as the file.
//
// Every function fails with kNotFound for an absent tensor, kCorrupt for another shape than asked
// for (naming both), kUnsupported for a type or companion tensor that nothing here computes.
class TensorFinder {
 public:
  // is_supported may be null: any type will do.
  TensorFinder(const gguf::ModelFile& file, bool (*is_supported)(TensorType),
               VectorCheck vector_check)
      : file_(file), is_supported_(is_supported), vector_check_(vector_check) {}

  bool contains(const std::string& name) const { return file_.find(name) != nullptr; }

  // `<base>.weight`, n_out rows of n_in values.
  Result<Matrix> matrix(const std::string& base, uint32_t n_in, uint32_t n_out);
  // `<base>.weight`, one such matrix for each of n_experts.
  Result<ExpertMatrices> experts(const std::string& base, uint32_t n_in, uint32_t n_out,
                                 uint32_t n_experts);
  // `name`, F32 and (unless that is left out) finite; dims in ne order, trailing ones may be
  // absent.
  Result<Vector> vector(const std::string& name, std::initializer_list<uint32_t> dims);

  // The names of all tensors that were never asked for.
  std::vector<std::string> unused() const;

 private:
  Result<const gguf::TensorView*> find(const std::string& name,
                                       std::initializer_list<uint32_t> dims);
  Result<const gguf::TensorView*> find_weight(const std::string& base,
                                              std::initializer_list<uint32_t> dims);

  const gguf::ModelFile& file_;
  bool (*is_supported_)(TensorType);
  VectorCheck vector_check_;
  std::set<std::string_view> used_;  // ordered: a hash could be made to collide
};

// Rows [first, first + count) as a matrix of their own.
Matrix rows_of(const Matrix& matrix, uint32_t first, uint32_t count);
// The same rows of every expert.
ExpertMatrices rows_of(const ExpertMatrices& experts, uint32_t first, uint32_t count);

}  // namespace kvasir::model
