#include "batchplan/kernels/pack.h"

#include <algorithm>
#include <cstdint>

#include "src/backends.h"
#include "src/move_arithmetic.h"
#include "src/row_arithmetic.h"

namespace batchplan::kernels {
namespace {

enum class Direction { kPack, kUnpack };

bool IsAligned(const void* pointer, uint32_t size) {
  return reinterpret_cast<uintptr_t>(pointer) % size == 0;
}

batchplan_status CheckPointers(const batchplan_field& field, bool has_room) {
  const bool needs_source = HasSource(field);
  if (has_room && (field.destination == nullptr || (needs_source && field.source == nullptr))) {
    return BATCHPLAN_ERROR_NULL_POINTER;
  }
  const bool aligned = IsAligned(field.destination, field.element_size) &&
                       (!needs_source || IsAligned(field.source, field.element_size));
  return aligned ? BATCHPLAN_OK : BATCHPLAN_ERROR_MISALIGNED;
}

// Judges everything that lies on the host, and says in `movement` what is to be done.
batchplan_status Prepare(Direction direction, const batchplan_row* row,
                         const batchplan_sequences* sequences, const batchplan_field* fields,
                         uint32_t num_fields, Movement& movement) {
  if (row == nullptr || (fields == nullptr && num_fields > 0)) return BATCHPLAN_ERROR_NULL_POINTER;
  if (const batchplan_status status = CheckRow(*row); status != BATCHPLAN_OK) return status;
  if (num_fields > BATCHPLAN_MAX_FIELDS) return BATCHPLAN_ERROR_FIELD_COUNT;

  movement = {.row = RowOf(*row),
              .sequences = {},
              .has_source = false,
              .narrowest = UINT64_MAX,
              .fields = fields,
              .num_fields = num_fields};
  if (sequences != nullptr) movement.sequences = *sequences;
  const bool ragged = movement.sequences.offsets != nullptr;
  // Nothing is read or written without sequences to unpack, or slots to pack.
  const bool has_room = direction == Direction::kPack ? PackedSlots(movement.row) > 0
                                                      : movement.row.num_sequences > 0;
  for (uint32_t i = 0; i < num_fields; ++i) {
    const batchplan_field& field = fields[i];
    if (const batchplan_status status = CheckField(field, ragged); status != BATCHPLAN_OK) {
      return status;
    }
    if (direction == Direction::kUnpack && field.content != BATCHPLAN_CONTENT_TOKENS) {
      return BATCHPLAN_ERROR_CONTENT;
    }
    if (const batchplan_status status = CheckPointers(field, has_room); status != BATCHPLAN_OK) {
      return status;
    }
    movement.has_source = movement.has_source || HasSource(field);
    if (field.content == BATCHPLAN_CONTENT_TOKENS) {
      movement.narrowest = std::min(movement.narrowest, field.width);
    }
  }
  return movement.has_source && sequences == nullptr ? BATCHPLAN_ERROR_NULL_POINTER : BATCHPLAN_OK;
}

batchplan_status Move(Direction direction, batchplan_backend backend, const batchplan_row* row,
                      const batchplan_sequences* sequences, const batchplan_field* fields,
                      uint32_t num_fields, batchplan_status* error_word, void* stream) {
  if (!IsBackend(backend)) return BATCHPLAN_ERROR_UNKNOWN_BACKEND;
  const bool on_device = backend == BATCHPLAN_BACKEND_CUDA;
  if (on_device && error_word == nullptr) return BATCHPLAN_ERROR_NULL_POINTER;
  Movement movement{};
  if (const batchplan_status status =
          Prepare(direction, row, sequences, fields, num_fields, movement);
      status != BATCHPLAN_OK) {
    return status;
  }
  if (direction == Direction::kPack) {
    return on_device ? cuda::Pack(movement, error_word, stream) : host::Pack(movement, error_word);
  }
  return on_device ? cuda::Unpack(movement, error_word, stream)
                   : host::Unpack(movement, error_word);
}

}  // namespace
}  // namespace batchplan::kernels

namespace kernels = batchplan::kernels;

batchplan_status batchplan_pack(batchplan_backend backend, const batchplan_row* row,
                                const batchplan_sequences* sequences, const batchplan_field* fields,
                                uint32_t num_fields, batchplan_status* error_word, void* stream) {
  return kernels::Move(kernels::Direction::kPack, backend, row, sequences, fields, num_fields,
                       error_word, stream);
}

batchplan_status batchplan_unpack(batchplan_backend backend, const batchplan_row* row,
                                  const batchplan_sequences* sequences,
                                  const batchplan_field* fields, uint32_t num_fields,
                                  batchplan_status* error_word, void* stream) {
  return kernels::Move(kernels::Direction::kUnpack, backend, row, sequences, fields, num_fields,
                       error_word, stream);
}
