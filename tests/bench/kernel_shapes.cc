#include "tests/bench/kernel_shapes.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <random>
#include <utility>

#include "batchplan/kernels.h"

namespace batchplan::kernels {
namespace {

constexpr batchplan_backend kCuda = BATCHPLAN_BACKEND_CUDA;
constexpr uint32_t kTokens = 131072;
constexpr uint64_t kHidden = 4096;

void Check(batchplan_status status) {
  if (status == BATCHPLAN_OK) return;
  std::fprintf(stderr, "%s\n", batchplan_status_string(status));
  std::abort();
}

char* Allocate(uint64_t bytes) {
  void* memory = nullptr;
  if (cudaMalloc(&memory, bytes) != cudaSuccess) Check(BATCHPLAN_ERROR_CUDA);
  return static_cast<char*>(memory);
}

template <typename T>
T* OnDevice(const std::vector<T>& values) {
  char* const memory = Allocate(values.size() * sizeof(T));
  Check(batchplan_copy(kCuda, memory, values.data(), values.size() * sizeof(T), nullptr));
  return reinterpret_cast<T*>(memory);
}

// Sequences of 16 to 16,384 tokens, short ones as frequent as long ones, in another order than
// their rows.
class MicroBatch {
 public:
  MicroBatch(uint32_t context_parallel, uint32_t rank) {
    for (uint32_t left = kTokens; left > 0; left -= lengths_.back()) {
      const uint32_t half = 8U << random_() % 11;
      lengths_.push_back(std::min<uint32_t>(left, half + random_() % half));
    }
    const uint32_t multiple = context_parallel > 1 ? 2 * context_parallel : 1;
    uint32_t width = 0;
    for (const uint32_t length : lengths_) width += (length + multiple - 1) / multiple * multiple;
    LayOut(multiple, context_parallel, rank, width, {});
  }

  // Stars of 16 answers; half of each answer is shared within its star.
  explicit MicroBatch(uint32_t stars) {
    const uint32_t length = kTokens / (16 * stars);
    uint32_t width = 0;
    std::vector<uint32_t> shared;
    for (uint32_t i = 0; i < 16 * stars; ++i) {
      lengths_.push_back(length);
      shared.push_back(i % 16 == 0 ? 0 : length / 2);
      width += length - shared.back();
    }
    LayOut(1, 1, 0, width, shared);
  }

  uint64_t rows() const { return lengths_.size(); }
  uint64_t longest() const { return *std::ranges::max_element(lengths_); }
  uint64_t cells() const { return cells_; }

  void Pack(const std::vector<batchplan_field>& fields, bool ragged) const {
    const batchplan_sequences sequences = Sequences(ragged);
    Check(batchplan_pack(kCuda, &row_, &sequences, fields.data(),
                         static_cast<uint32_t>(fields.size()), error_word_, nullptr));
    Finish();
  }
  void Unpack(const std::vector<batchplan_field>& fields, bool ragged) const {
    const batchplan_sequences sequences = Sequences(ragged);
    Check(batchplan_unpack(kCuda, &row_, &sequences, fields.data(),
                           static_cast<uint32_t>(fields.size()), error_word_, nullptr));
    Finish();
  }
  void UnpackGradient(const batchplan_gradient& gradient) const {
    const batchplan_sequences sequences = Sequences(/*ragged=*/true);
    Check(batchplan_unpack_gradient(kCuda, &row_, &sequences, &gradient, error_word_, nullptr));
    Finish();
  }
  void Reduce(const batchplan_reduction& reduction) const {
    size_t size = 0;
    Check(
        batchplan_reduce_workspace_size(kCuda, row_.num_sequences, row_.options.row_width, &size));
    Check(batchplan_reduce(kCuda, &row_, &reduction, error_word_, Allocate(size), size, nullptr));
    Finish();
  }

 private:
  void LayOut(uint32_t multiple, uint32_t context_parallel, uint32_t rank, uint32_t width,
              const std::vector<uint32_t>& shared) {
    std::vector<uint32_t> index(lengths_.size());
    std::iota(index.begin(), index.end(), 0);
    for (size_t i = index.size(); i > 1; --i) std::swap(index[i - 1], index[random_() % i]);
    std::vector<int64_t> offsets(1, 0);
    std::vector<uint32_t> row_lengths(lengths_.size());
    for (size_t i = 0; i < index.size(); ++i) row_lengths[index[i]] = lengths_[i];
    for (const uint32_t length : row_lengths) offsets.push_back(offsets.back() + length);

    const auto count = static_cast<uint32_t>(lengths_.size());
    auto* const cu_seqlens = reinterpret_cast<int32_t*>(Allocate(4 * (lengths_.size() + 1)));
    auto* const padded = reinterpret_cast<int32_t*>(Allocate(4 * (lengths_.size() + 1)));
    auto* const least_shared = reinterpret_cast<int32_t*>(Allocate(4 * lengths_.size()));
    row_ = {.cu_seqlens = cu_seqlens,
            .cu_seqlens_padded = padded,
            .num_sequences = count,
            .options = {.length_multiple = multiple,
                        .context_parallel = context_parallel,
                        .row_width = width},
            .context_parallel_rank = rank};
    if (!shared.empty()) row_.least_shared = least_shared;
    cells_ = rank == BATCHPLAN_ALL_RANKS ? width : width / context_parallel;
    batchplan_packed_layout layout{};
    layout.cu_seqlens = cu_seqlens;
    layout.cu_seqlens_padded = padded;
    layout.least_shared = least_shared;
    error_word_ = OnDevice(std::vector<batchplan_status>{BATCHPLAN_OK});
    Check(batchplan_compute_layout(kCuda, OnDevice(lengths_),
                                   shared.empty() ? nullptr : OnDevice(shared), count,
                                   &row_.options, &layout, error_word_, nullptr));
    Finish();
    sequences_.sequence_index = OnDevice(index);
    sequences_.num_rows = count;
    offsets_ = OnDevice(offsets);
  }

  batchplan_sequences Sequences(bool ragged) const {
    batchplan_sequences sequences = sequences_;
    if (ragged) {
      sequences.offsets = offsets_;
      sequences.num_tokens = kTokens;
    }
    return sequences;
  }
  void Finish() const {
    Check(batchplan_wait(kCuda, nullptr));
    batchplan_status status = BATCHPLAN_OK;
    Check(batchplan_copy(kCuda, &status, error_word_, sizeof status, nullptr));
    Check(batchplan_wait(kCuda, nullptr));
    Check(status);
  }

  std::mt19937 random_{1};
  std::vector<uint32_t> lengths_;
  uint64_t cells_ = 0;
  batchplan_row row_{};
  batchplan_sequences sequences_{};
  int64_t* offsets_ = nullptr;
  batchplan_status* error_word_ = nullptr;
};

// Hidden states in bfloat16, row by row. Rows of an odd size begin at any address.
Shape WideRows(const std::string& name, uint64_t hidden) {
  const auto batch = std::make_shared<MicroBatch>(1, 0);
  batchplan_field field{};
  field.element_size = 2;
  field.elements_per_token = hidden;
  field.source = Allocate(kTokens * hidden * 2 + 2) + (hidden % 2) * 2;
  field.destination = Allocate(batch->cells() * hidden * 2);
  return {name, kTokens, kTokens * hidden * 2, batch->cells() * hidden * 2,
          [batch, field] { batch->Pack({field}, /*ragged=*/true); }};
}

// Ids, labels, a mask, log-probabilities and advantages; positions too if they are packed.
Shape NarrowFields(const std::string& name, uint32_t context_parallel, bool unpacks) {
  const auto batch = std::make_shared<MicroBatch>(
      context_parallel, unpacks && context_parallel > 1 ? BATCHPLAN_ALL_RANKS : 0);
  const uint64_t padded_tokens = batch->rows() * batch->longest();
  Shape shape = {name, kTokens, 0, 0, nullptr};
  std::vector<batchplan_field> fields;
  for (const uint32_t size : {8, 8, 1, 4, 4, 4}) {
    batchplan_field field{};
    field.element_size = size;
    field.elements_per_token = 1;
    field.width = batch->longest();
    char* const padded = Allocate(padded_tokens * size);
    char* const packed = Allocate(batch->cells() * size);
    const bool is_labels = fields.size() == 1;
    const bool is_positions = fields.size() == 5 && !unpacks;
    if (is_positions) field.content = BATCHPLAN_CONTENT_POSITION_IDS;
    if (is_labels && !unpacks) field.token_shift = 1;
    field.source = is_positions ? nullptr : unpacks ? packed : padded;
    field.destination = unpacks ? padded : packed;
    if (!is_positions) {
      shape.bytes_read += (unpacks ? uint64_t{kTokens} : batch->cells()) * size;
    }
    shape.bytes_written += (unpacks ? padded_tokens : batch->cells()) * size;
    fields.push_back(field);
  }
  shape.call = [batch, fields, unpacks] {
    unpacks ? batch->Unpack(fields, /*ragged=*/false) : batch->Pack(fields, /*ragged=*/false);
  };
  return shape;
}

Shape SumPerSequence(const std::string& name) {
  const auto batch = std::make_shared<MicroBatch>(1, 0);
  batchplan_reduction reduction{};
  reduction.values = Allocate(batch->cells() * 4);
  reduction.weights = Allocate(batch->cells() * 4);
  reduction.sums = reinterpret_cast<float*>(Allocate(batch->rows() * 4));
  return {name, kTokens, batch->cells() * 8, batch->rows() * 4,
          [batch, reduction] { batch->Reduce(reduction); }};
}

// Eight stars of 16 sequences, with one field.
Shape UnpackedStars(const std::string& name, uint32_t element_size, uint64_t elements) {
  const auto batch = std::make_shared<MicroBatch>(8);
  batchplan_field field{};
  field.element_size = element_size;
  field.elements_per_token = elements;
  const uint64_t token = element_size * elements;
  field.source = Allocate(batch->cells() * token);
  field.destination = Allocate(kTokens * token);
  return {name, kTokens, batch->cells() * token, kTokens * token,
          [batch, field] { batch->Unpack({field}, /*ragged=*/true); }};
}

Shape GradientOfStars(const std::string& name, batchplan_data_type type, uint64_t token) {
  const auto batch = std::make_shared<MicroBatch>(8);
  batchplan_gradient gradient{};
  gradient.data_type = type;
  gradient.elements_per_token = type == BATCHPLAN_BFLOAT16 ? token / 2 : token / 4;
  gradient.source = Allocate(kTokens * token);
  gradient.destination = Allocate(batch->cells() * token);
  return {name, kTokens, kTokens * token, batch->cells() * token,
          [batch, gradient] { batch->UnpackGradient(gradient); }};
}

}  // namespace

std::vector<Shape> TrainingShapes() {
  return {
      WideRows("rows of 4096 bf16, packed", kHidden),
      WideRows("rows of 4095 bf16, packed", kHidden - 1),
      NarrowFields("six narrow fields, packed", 1, /*unpacks=*/false),
      NarrowFields("six narrow fields, unpacked to padded", 1, /*unpacks=*/true),
      NarrowFields("six narrow fields, packed under CP 8", 8, /*unpacks=*/false),
      NarrowFields("six narrow fields, unpacked to padded under CP 8", 8, /*unpacks=*/true),
      SumPerSequence("sum per sequence of floats with weights"),
      UnpackedStars("stars of 16, rows of 4096 bf16, unpacked", 2, kHidden),
      UnpackedStars("stars of 16, a narrow field, unpacked", 4, 1),
      GradientOfStars("stars of 16, the gradient of rows of 4096 bf16", BATCHPLAN_BFLOAT16,
                      2 * kHidden),
      GradientOfStars("stars of 16, the gradient of a narrow field", BATCHPLAN_FLOAT32, 4),
  };
}

}  // namespace batchplan::kernels
