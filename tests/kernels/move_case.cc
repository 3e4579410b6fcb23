#include "move_case.h"

#include <gtest/gtest.h>

#include <utility>

#include "naive_row.h"

namespace batchplan::kernels {

void PrintTo(const Case& c, std::ostream* out) {
  *out << "lengths " << testing::PrintToString(c.lengths) << ", multiple "
       << c.options.length_multiple << ", CP " << c.options.context_parallel << ", rank " << c.rank
       << ", row " << c.options.row_width << ", sequence width " << c.options.sequence_width
       << ", sharding " << c.options.sharding << ", " << (c.ragged ? "ragged" : "padded")
       << ", width " << c.width << ", " << c.elements_per_token << " elements of " << c.element_size
       << " bytes, shift " << c.shift << ", misaligned by " << c.source_misalignment << " and "
       << c.destination_misalignment;
}

Case Generator::Next() { return Next(1 + Below(Below(4) == 0 ? 200 : 20)); }

Case Generator::Next(uint32_t longest) {
  Case c{};
  const uint32_t ranks = Below(3) == 0 ? 1 : 1 + Below(5);
  const bool zigzag = Below(3) > 0;
  const uint32_t divisor = ranks == 1 ? 1 : ranks * (zigzag ? 2 : 1);
  c.options = {.length_multiple = divisor * (1 + Below(4)),
               .context_parallel = ranks,
               .sharding = zigzag ? BATCHPLAN_SHARDING_ZIGZAG : BATCHPLAN_SHARDING_CONTIGUOUS};
  c.rank = Below(3) == 0 ? BATCHPLAN_ALL_RANKS : Below(ranks);
  c.lengths.resize(Below(12));
  for (uint32_t& length : c.lengths) length = Below(4) == 0 ? 0 : Below(longest + 1);
  if (Below(5) == 0) c.options.sequence_width = (longest + divisor - 1) / divisor * divisor;
  for (const uint32_t length : c.lengths) {
    c.options.row_width += NaivePaddedLength(length, c.options);
  }
  c.options.row_width += Below(3) * divisor;

  c.num_rows = static_cast<uint32_t>(c.lengths.size()) + Below(4);
  c.index.resize(c.num_rows);
  for (uint32_t i = 0; i < c.num_rows; ++i) c.index[i] = i;
  for (uint32_t i = c.num_rows; i > 1; --i) std::swap(c.index[i - 1], c.index[Below(i)]);
  c.index.resize(c.lengths.size());
  c.ragged = Below(2) == 0;
  c.width = longest + Below(5);
  static_cast<FieldCase&>(c) = NextField();
  return c;
}

FieldCase Generator::NextField() {
  FieldCase field{};
  field.element_size = 1U << Below(5);
  field.elements_per_token = Below(2) == 0 ? 1 : 1 + Below(Below(2) == 0 ? 8 : 400);
  field.shift = Below(3) == 0 ? static_cast<int32_t>(Below(9)) - 4 : 0;
  field.source_misalignment = size_t{Below(16 / field.element_size)} * field.element_size;
  field.destination_misalignment = size_t{Below(16 / field.element_size)} * field.element_size;
  return field;
}

Bytes Generator::RandomBytes(size_t count) {
  Bytes bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random_());
  return bytes;
}

std::vector<int64_t> RowOffsets(const Case& c, Generator& generator) {
  std::vector<int64_t> room(c.num_rows);
  for (int64_t& tokens : room) tokens = c.ragged ? generator.Below(5) : c.width;
  if (c.ragged) {
    for (size_t i = 0; i < c.lengths.size(); ++i) {
      room[c.index[i]] = c.lengths[i] + generator.Below(3);
    }
  }
  std::vector<int64_t> offsets = {c.ragged ? generator.Below(3) : 0};
  for (const int64_t tokens : room) offsets.push_back(offsets.back() + tokens);
  return offsets;
}

}  // namespace batchplan::kernels
