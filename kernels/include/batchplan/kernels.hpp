// The C API of batchplan/kernels.h for C++20: fields that know their types, a range over a rank's
// micro-batches. Header-only; adds no state, no allocation and no exceptions.
//
//   namespace kernels = batchplan::kernels;
//   for (const batchplan_microbatch& microbatch : kernels::Microbatches(plan, rank)) {
//     ...
//     const std::array fields = {kernels::Tokens(input_ids, packed_ids, width, pad_id),
//                                kernels::NextTokens(input_ids, labels, width, int64_t{-100}),
//                                kernels::PerSequence(advantages, packed_advantages),
//                                kernels::PositionIds(position_ids)};
//     batchplan_status status =
//         kernels::Pack(backend, row, sequences, fields, error_word, stream);
//   }

#ifndef BATCHPLAN_KERNELS_HPP_
#define BATCHPLAN_KERNELS_HPP_

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <span>
#include <type_traits>

#include "batchplan/kernels.h"

namespace batchplan::kernels {

// What a tensor's element may be: bytes of a size that the library moves.
template <typename T>
concept Element = std::is_trivially_copyable_v<T> &&
    (sizeof(T) == 1 || sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 8 || sizeof(T) == 16);

// A field to pack from [num_rows, width, elements_per_token] or ragged tokens, or to unpack to
// them. `width` is unused if ragged.
template <Element T>
batchplan_field Tokens(const T* source, T* destination, uint64_t width,
                       std::type_identity_t<T> pad_value = {}, uint64_t elements_per_token = 1) {
  batchplan_field field = {};
  field.content = BATCHPLAN_CONTENT_TOKENS;
  field.element_size = sizeof(T);
  field.elements_per_token = elements_per_token;
  field.source = source;
  field.destination = destination;
  field.width = width;
  std::memcpy(field.pad_value, &pad_value, sizeof pad_value);
  return field;
}

// The token that follows each one: labels to pack, or log-probabilities to put back where their
// token stands.
template <Element T>
batchplan_field NextTokens(const T* source, T* destination, uint64_t width,
                           std::type_identity_t<T> pad_value) {
  batchplan_field field = Tokens(source, destination, width, pad_value);
  field.token_shift = 1;
  return field;
}

// One entry a row of the sequences, [num_rows, elements_per_token], to each of its tokens.
template <Element T>
batchplan_field PerSequence(const T* source, T* destination, std::type_identity_t<T> pad_value = {},
                            uint64_t elements_per_token = 1) {
  batchplan_field field = Tokens(source, destination, 0, pad_value, elements_per_token);
  field.content = BATCHPLAN_CONTENT_PER_SEQUENCE;
  return field;
}

template <typename T>
concept Id = std::signed_integral<T> &&(sizeof(T) == 4 || sizeof(T) == 8);

template <Id T>
batchplan_field PositionIds(T* destination) {
  batchplan_field field = Tokens<T>(nullptr, destination, 0);
  field.content = BATCHPLAN_CONTENT_POSITION_IDS;
  return field;
}

template <Id T>
batchplan_field SequenceIds(T* destination) {
  batchplan_field field = Tokens<T>(nullptr, destination, 0);
  field.content = BATCHPLAN_CONTENT_SEQUENCE_IDS;
  return field;
}

// Where the token before each one stands in a row that shares prefixes: to unpack to [num_rows,
// width] or ragged tokens.
template <Id T>
batchplan_field Predecessors(T* destination, uint64_t width) {
  batchplan_field field = Tokens<T>(nullptr, destination, width);
  field.content = BATCHPLAN_CONTENT_PREDECESSORS;
  return field;
}

// batchplan_pack. `stream` is a cudaStream_t, unused by "host".
inline batchplan_status Pack(batchplan_backend backend, const batchplan_row& row,
                             const batchplan_sequences& sequences,
                             std::span<const batchplan_field> fields, batchplan_status* error_word,
                             void* stream = nullptr) {
  return batchplan_pack(backend, &row, &sequences, fields.data(),
                        static_cast<uint32_t>(fields.size()), error_word, stream);
}

// batchplan_unpack.
inline batchplan_status Unpack(batchplan_backend backend, const batchplan_row& row,
                               const batchplan_sequences& sequences,
                               std::span<const batchplan_field> fields,
                               batchplan_status* error_word, void* stream = nullptr) {
  return batchplan_unpack(backend, &row, &sequences, fields.data(),
                          static_cast<uint32_t>(fields.size()), error_word, stream);
}

// batchplan_unpack_gradient.
inline batchplan_status UnpackGradient(batchplan_backend backend, const batchplan_row& row,
                                       const batchplan_sequences& sequences,
                                       const batchplan_gradient& gradient,
                                       batchplan_status* error_word, void* stream = nullptr) {
  return batchplan_unpack_gradient(backend, &row, &sequences, &gradient, error_word, stream);
}

// The micro-batches of one data parallel rank, an input range. `plan` and its arrays must outlive
// it. A plan or rank that is wrong has no micro-batches; status() says what is wrong.
class Microbatches {
 public:
  class Iterator {
   public:
    using iterator_concept = std::input_iterator_tag;
    using value_type = batchplan_microbatch;
    using difference_type = std::ptrdiff_t;

    const batchplan_microbatch& operator*() const { return microbatch_; }
    const batchplan_microbatch* operator->() const { return &microbatch_; }
    Iterator& operator++() {
      at_end_ = batchplan_next_microbatch(&iterator_, &microbatch_) == 0;
      return *this;
    }
    void operator++(int) { ++*this; }
    bool operator==(std::default_sentinel_t /*end*/) const { return at_end_; }

   private:
    friend class Microbatches;

    explicit Iterator(const Microbatches& range) : iterator_(range.begin_) {
      if (range.status_ == BATCHPLAN_OK) ++*this;
    }

    batchplan_microbatch_iterator iterator_;
    batchplan_microbatch microbatch_ = {};
    bool at_end_ = true;
  };

  Microbatches(const batchplan_plan& plan, uint32_t data_parallel_rank)
      : status_(batchplan_rank_microbatches(&plan, data_parallel_rank, &begin_)) {}

  // It would not outlive the range.
  Microbatches(const batchplan_plan&& plan, uint32_t data_parallel_rank) = delete;

  batchplan_status status() const { return status_; }
  Iterator begin() const { return Iterator(*this); }
  std::default_sentinel_t end() const { return {}; }

 private:
  batchplan_microbatch_iterator begin_ = {};
  batchplan_status status_;
};

}  // namespace batchplan::kernels

#endif  // BATCHPLAN_KERNELS_HPP_
