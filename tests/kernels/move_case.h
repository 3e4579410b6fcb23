// Random micro-batches to pack and unpack, with fields of any width at any alignment.

#ifndef BATCHPLAN_TESTS_KERNELS_MOVE_CASE_H_
#define BATCHPLAN_TESTS_KERNELS_MOVE_CASE_H_

#include <cstddef>
#include <cstdint>
#include <ostream>
#include <random>
#include <vector>

#include "batchplan/kernels.h"

namespace batchplan::kernels {

using Bytes = std::vector<std::byte>;

// A field of a case.
struct FieldCase {
  uint32_t element_size;
  uint32_t elements_per_token;
  int32_t shift;
  // The misalignment of both tensors, in bytes; a multiple of the element size.
  size_t source_misalignment;
  size_t destination_misalignment;

  size_t token_bytes() const { return size_t{element_size} * elements_per_token; }
};

// A random case: a row with one field.
struct Case : FieldCase {
  std::vector<uint32_t> lengths;
  batchplan_layout_options options;
  uint32_t rank;
  bool ragged;
  // The row of each sequence on the unpacked side, all different; and the number of rows.
  std::vector<uint32_t> index;
  uint32_t num_rows;
  uint32_t width;
};

void PrintTo(const Case& c, std::ostream* out);

class Generator {
 public:
  explicit Generator(uint32_t seed) : random_(seed) {}

  uint32_t Below(uint32_t bound) { return static_cast<uint32_t>(random_() % bound); }

  Case Next();
  // A case with sequences of up to `longest` tokens.
  Case Next(uint32_t longest);
  FieldCase NextField();
  Bytes RandomBytes(size_t count);

 private:
  std::mt19937 random_;
};

// Where the rows of the unpacked side begin, in tokens; one entry more than rows. Rows of sequences
// have up to two tokens more than the sequence, other rows any number.
std::vector<int64_t> RowOffsets(const Case& c, Generator& generator);

}  // namespace batchplan::kernels

#endif  // BATCHPLAN_TESTS_KERNELS_MOVE_CASE_H_
