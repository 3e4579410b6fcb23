#include "batchplan/kernels/pack.h"

#include <algorithm>
#include <cstdint>

#include "src/alignment.h"
#include "src/backends.h"
#include "src/move_arithmetic.h"
#include "src/row_arithmetic.h"

namespace batchplan::kernels {
namespace {

enum class Direction { kPack, kUnpack };

// Whether the sequences' side of `field` has an element.
bool HasTokens(const batchplan_sequences& sequences, const batchplan_field& field) {
  if (sequences.num_rows == 0) return false;
  if (field.content == BATCHPLAN_CONTENT_PER_SEQUENCE) return true;
  return sequences.offsets != nullptr ? sequences.num_tokens > 0 : field.width > 0;
}

// Empty tensors have no address.
batchplan_status CheckPointers(Direction direction, const Movement& movement,
                               const batchplan_field& field) {
  const bool packs = direction == Direction::kPack;
  const bool has_cells = PackedCells(movement.row) > 0;
  const bool has_tokens = movement.row.num_sequences > 0 && HasTokens(movement.sequences, field);
  const bool writes = packs ? has_cells : has_tokens;
  const bool reads = HasSource(field) && has_cells && has_tokens;
  if ((writes && field.destination == nullptr) || (reads && field.source == nullptr)) {
    return BATCHPLAN_ERROR_NULL_POINTER;
  }
  const bool aligned = IsAligned(field.destination, field.element_size) &&
                       (!HasSource(field) || IsAligned(field.source, field.element_size));
  return aligned ? BATCHPLAN_OK : BATCHPLAN_ERROR_MISALIGNED;
}

// Judges everything that lies on the host, and says in `movement` what is to be done.
batchplan_status Prepare(Direction direction, const batchplan_row* row,
                         const batchplan_sequences* sequences, const batchplan_field* fields,
                         uint32_t num_fields, Movement& movement) {
  if (row == nullptr || (fields == nullptr && num_fields > 0)) return BATCHPLAN_ERROR_NULL_POINTER;
  if (const batchplan_status status = CheckRow(*row); status != BATCHPLAN_OK) return status;
  if (const batchplan_status status =
          CheckAlignment(row->cu_seqlens, row->cu_seqlens_padded, row->least_shared);
      status != BATCHPLAN_OK) {
    return status;
  }
  if (num_fields > BATCHPLAN_MAX_FIELDS) return BATCHPLAN_ERROR_FIELD_COUNT;

  movement = {.row = RowOf(*row),
              .sequences = {},
              .has_rows = false,
              .narrowest = UINT64_MAX,
              .fields = fields,
              .num_fields = num_fields};
  if (sequences != nullptr) movement.sequences = *sequences;
  const bool ragged = movement.sequences.offsets != nullptr;
  const bool shares = row->least_shared != nullptr;
  for (uint32_t i = 0; i < num_fields; ++i) {
    const batchplan_field& field = fields[i];
    if (const batchplan_status status = CheckField(field, ragged, shares); status != BATCHPLAN_OK) {
      return status;
    }
    const bool is_known = direction == Direction::kUnpack
                              ? HasTokenRows(field)
                              : field.content != BATCHPLAN_CONTENT_PREDECESSORS;
    if (!is_known) return BATCHPLAN_ERROR_CONTENT;
    if (HasRows(field) && sequences == nullptr) return BATCHPLAN_ERROR_NULL_POINTER;
    if (const batchplan_status status = CheckPointers(direction, movement, field);
        status != BATCHPLAN_OK) {
      return status;
    }
    movement.has_rows = movement.has_rows || HasRows(field);
    if (HasTokenRows(field)) {
      movement.narrowest = std::min(movement.narrowest, field.width);
    }
  }
  return CheckAlignment(movement.sequences.sequence_index, movement.sequences.offsets);
}

batchplan_status Move(Direction direction, batchplan_backend backend, const batchplan_row* row,
                      const batchplan_sequences* sequences, const batchplan_field* fields,
                      uint32_t num_fields, batchplan_status* error_word, void* stream) {
  if (!IsBackend(backend)) return BATCHPLAN_ERROR_UNKNOWN_BACKEND;
  const bool on_device = backend == BATCHPLAN_BACKEND_CUDA;
  if (on_device && error_word == nullptr) return BATCHPLAN_ERROR_NULL_POINTER;
  if (!IsAligned(error_word, sizeof *error_word)) return BATCHPLAN_ERROR_MISALIGNED;
  Movement movement{};
  if (const batchplan_status status =
          Prepare(direction, row, sequences, fields, num_fields, movement);
      status != BATCHPLAN_OK) {
    return status;
  }
  if (num_fields == 0) return BATCHPLAN_OK;
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
