// How the fields of a call are grouped for its kernel; on the host.

#ifndef BATCHPLAN_KERNELS_SRC_CUDA_GROUP_FIELDS_H_
#define BATCHPLAN_KERNELS_SRC_CUDA_GROUP_FIELDS_H_

#include <cuda_runtime.h>
#include <stdint.h>
#include <string.h>

#include "src/cuda/move_tasks.h"
#include "src/cuda/wide_fields.h"
#include "src/move_arithmetic.h"

namespace batchplan::kernels::cuda {

// The most blocks that a grid has.
inline constexpr int64_t kMostBlocks = INT32_MAX;
// A narrow group of at least kManyItems items fills a device in several rounds too.
inline constexpr int64_t kManyItems = int64_t{1} << 19;
inline constexpr uint8_t kRoundsOfMany = 4;

// How many tokens the destination of a field has, and the width of its padded rows: 0 unless it
// unpacks to such rows.
struct Extent {
  int64_t tokens;
  uint64_t row_width;
};

class FieldGrouping {
 public:
  // `extent_of` is asked for each of `movement`'s fields.
  template <typename ExtentOf>
  FieldGrouping(const Movement& movement, const ExtentOf& extent_of, Tasks& tasks)
      : tasks_(tasks), num_fields_(movement.num_fields) {
    for (uint32_t i = 0; i < num_fields_; ++i) {
      fields_[i] = FieldOf(movement.fields[i], movement.sequences.offsets != nullptr,
                           extent_of(movement.fields[i]));
    }
  }

  // Writes groups, ways and fields to the tasks. Returns the number of thread blocks that they
  // need: more than kMostBlocks if they need too many.
  int64_t Form() {
    int64_t blocks = 0;
    for (uint32_t first = 0; first < num_fields_; ++first) {
      if (fields_[first].is_taken) continue;
      // No buffer is that large; refused here, so that no multiplication overflows.
      if (fields_[first].extent.tokens > INT64_MAX / fields_[first].token_bytes) {
        return kMostBlocks + 1;
      }
      const FieldGroup& group = AddGroup(first, blocks);
      const int64_t items_of_block =
          group.is_wide ? kBlockTiles * kTileBytes : int64_t{kThreads} * group.rounds;
      // The first tile may have fewer bytes, see wide_fields.h.
      const int64_t skew = group.is_wide ? kVectorBytes - 1 : 0;
      blocks += (group.items - 1 + skew) / items_of_block + 1;
      if (blocks > kMostBlocks) return blocks;
    }
    return blocks;
  }

 private:
  struct Field {
    FieldTask task;
    FieldWay way;
    Extent extent;
    uint32_t token_bytes;
    uint32_t word_bytes;
    bool is_taken;

    bool IsWide() const { return token_bytes >= kLeastWideBytes; }
    uint32_t WordsPerToken() const { return token_bytes / word_bytes; }
    WordKind Kind() const {
      return word_bytes == 8   ? kWordsOf8
             : word_bytes == 4 ? kWordsOf4
             : word_bytes == 2 ? kWordsOf2
                               : kWordsOf1;
    }
    bool IsFoundLike(const Field& other) const {
      return !IsWide() && !other.IsWide() && WordsPerToken() == other.WordsPerToken() &&
             extent.tokens == other.extent.tokens;
    }
    bool GoesLike(const Field& other) const {
      return way.content == other.way.content && way.width == other.way.width &&
             way.token_shift == other.way.token_shift;
    }
  };

  static Field FieldOf(const batchplan_field& from, bool ragged, const Extent& extent) {
    Field field{};
    field.task.source = HasSource(from) ? static_cast<const char*>(from.source) : nullptr;
    field.task.destination = static_cast<char*>(from.destination);
    unsigned char pad[sizeof field.task.pad];
    for (uint32_t i = 0; i < sizeof pad; ++i) pad[i] = from.pad_value[i % from.element_size];
    memcpy(&field.task.pad, pad, sizeof pad);
    field.way.content = from.content;
    // Other content ignores these, so they must not separate its ways.
    if (HasTokenRows(from)) {
      field.way.token_shift = from.token_shift;
      field.way.width = ragged ? 0 : from.width;
    }
    field.extent = extent;
    field.token_bytes = static_cast<uint32_t>(from.element_size * from.elements_per_token);
    const uintptr_t bits = reinterpret_cast<uintptr_t>(field.task.source) |
                           reinterpret_cast<uintptr_t>(field.task.destination) | field.token_bytes |
                           8;
    field.word_bytes = static_cast<uint32_t>(bits & (~bits + 1));
    field.is_taken = extent.tokens == 0;
    return field;
  }

  // The group of field `first`: a wide one alone, or narrow ones way by way.
  const FieldGroup& AddGroup(uint32_t first, int64_t first_block) {
    const Field model = fields_[first];
    FieldGroup& group = tasks_.groups[tasks_.num_groups++];
    group.first_block = static_cast<uint32_t>(first_block);
    group.first_way = num_ways_;
    group.is_wide = model.IsWide();
    group.token_size = group.is_wide ? model.token_bytes : model.WordsPerToken();
    group.row_width = model.extent.row_width;
    group.items = model.extent.tokens * group.token_size;
    group.rounds = !group.is_wide && group.items >= kManyItems ? kRoundsOfMany : 1;
    if (group.is_wide) {
      AddWay(group, model, [&](const Field& field) { return &field == &fields_[first]; });
      return group;
    }
    for (uint32_t i = first; i < num_fields_; ++i) {
      const Field lead = fields_[i];
      if (lead.is_taken || !lead.IsFoundLike(model)) continue;
      AddWay(group, lead,
             [&](const Field& field) { return field.IsFoundLike(model) && field.GoesLike(lead); });
    }
    return group;
  }

  template <typename IsOfWay>
  void AddWay(FieldGroup& group, const Field& lead, const IsOfWay& is_of_way) {
    FieldWay& way = tasks_.ways[num_ways_++];
    way = lead.way;
    way.first_field = num_tasks_;
    for (uint8_t kind = 0; kind < kWordKinds; ++kind) {
      for (uint32_t i = 0; i < num_fields_; ++i) {
        Field& field = fields_[i];
        if (field.is_taken || field.Kind() != kind || !is_of_way(field)) continue;
        field.is_taken = true;
        tasks_.fields[num_tasks_++] = field.task;
      }
      way.ends[kind] = num_tasks_;
    }
    ++group.num_ways;
  }

  Tasks& tasks_;
  uint32_t num_fields_;
  Field fields_[BATCHPLAN_MAX_FIELDS];
  uint8_t num_ways_ = 0;
  uint8_t num_tasks_ = 0;
};

}  // namespace batchplan::kernels::cuda

#endif  // BATCHPLAN_KERNELS_SRC_CUDA_GROUP_FIELDS_H_
