// A call to pack or unpack as its kernel gets it.
//
// Fields are narrow or wide by the bytes of a token. Narrow fields whose destinations have their
// tokens in the same places form a group, which has thread blocks of its own: a thread looks up the
// sequence of its token once for the group. Within a group, fields that also read the same tokens
// of their sources form a way: the source token is found once for the way.

#ifndef BATCHPLAN_KERNELS_SRC_CUDA_MOVE_TASKS_H_
#define BATCHPLAN_KERNELS_SRC_CUDA_MOVE_TASKS_H_

#include <cuda_runtime.h>
#include <stdint.h>

#include "src/move_arithmetic.h"
#include "src/row_arithmetic.h"

namespace batchplan::kernels::cuda {

inline constexpr uint32_t kThreads = 256;

// A field of at least this many bytes a token is wide: even its short sequences have work for a
// warp.
inline constexpr uint32_t kLeastWideBytes = 128;

struct FieldTask {
  const char* source;
  char* destination;
  // The pad value, as often as it goes into 16 bytes.
  uint4 pad;
};

// 8 bytes of a pad value: the first half for even words, the second for odd ones.
__device__ inline uint64_t PadWord(const uint4& pad, uint32_t word) {
  return word % 2 == 0 ? uint64_t{pad.y} << 32 | pad.x : uint64_t{pad.w} << 32 | pad.z;
}

// Words are as wide as the addresses and the tokens of a narrow field allow, at most 8 bytes.
enum WordKind : uint8_t { kWordsOf8, kWordsOf4, kWordsOf2, kWordsOf1, kWordKinds };

// Some of the launch's fields, one behind the other; of narrow ones, those of wider words first.
struct FieldWay {
  // What batchplan_field says of each.
  uint64_t width;
  int32_t token_shift;
  batchplan_content content;
  uint8_t first_field;
  // Of narrow fields: behind the last one of each kind.
  uint8_t ends[kWordKinds];
};

struct FieldGroup {
  uint32_t first_block;
  uint8_t first_way;
  uint8_t num_ways;
  bool is_wide;
  // Narrow group: how many words each thread moves, one after the other.
  uint8_t rounds;
  // Wide field: bytes of a token. Narrow group: words of a token.
  uint32_t token_size;
  // Unpacking to padded rows: their width.
  uint64_t row_width;
  // The size of a field's destination in the unit of token_size: bytes or words.
  int64_t items;
};

// A whole launch, passed as kernel parameters: nothing to upload, nothing to keep alive.
struct Tasks {
  Row row;
  batchplan_sequences sequences;
  uint64_t narrowest;
  batchplan_status* error_word;
  uint32_t num_groups;
  bool has_rows;
  FieldGroup groups[BATCHPLAN_MAX_FIELDS];
  FieldWay ways[BATCHPLAN_MAX_FIELDS];
  FieldTask fields[BATCHPLAN_MAX_FIELDS];
};
static_assert(sizeof(Tasks) <= 4096, "the parameters of a kernel");

}  // namespace batchplan::kernels::cuda

#endif  // BATCHPLAN_KERNELS_SRC_CUDA_MOVE_TASKS_H_
