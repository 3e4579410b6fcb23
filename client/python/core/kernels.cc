#include "batchplan/kernels.h"

#ifdef __linux__
#include <sys/mman.h>
#endif

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/python/core/bindings.h"
#include "client/python/core/row_layout.h"
#include "client/python/core/status_error.h"
#include "client/python/core/unlocked.h"
#include "client/python/core/viewing.h"

namespace nb = nanobind;

namespace batchplan::python {
namespace {

using Tensor = nb::ndarray<nb::c_contig>;
using Source = nb::ndarray<nb::ro, nb::c_contig>;
template <typename T>
using Vector = nb::ndarray<T, nb::ndim<1>, nb::c_contig>;

[[noreturn]] void Refuse(const std::string& message) {
  throw StatusError(absl::InvalidArgumentError(message));
}

void Check(batchplan_status status) {
  if (status == BATCHPLAN_OK) return;
  std::string message = batchplan_status_string(status);
  const bool refused = status == BATCHPLAN_ERROR_CUDA || status == BATCHPLAN_ERROR_NO_DEVICE;
  if (!refused && status != BATCHPLAN_ERROR_BACKEND_NOT_BUILT) Refuse(message);
  if (const char* const reason = batchplan_backend_error(BATCHPLAN_BACKEND_CUDA);
      refused && *reason != '\0') {
    absl::StrAppend(&message, ": ", reason);
  }
  throw StatusError(absl::FailedPreconditionError(message));
}

batchplan_data_type DataTypeOf(const nb::dlpack::dtype& type) {
  using nb::dlpack::dtype_code;
  struct Known {
    dtype_code code;
    int bits;
    batchplan_data_type type;
  };
  static constexpr Known kKnown[] = {
      {dtype_code::Float, 32, BATCHPLAN_FLOAT32}, {dtype_code::Float, 64, BATCHPLAN_FLOAT64},
      {dtype_code::Float, 16, BATCHPLAN_FLOAT16}, {dtype_code::Bfloat, 16, BATCHPLAN_BFLOAT16},
      {dtype_code::UInt, 8, BATCHPLAN_UINT8},     {dtype_code::Int, 32, BATCHPLAN_INT32},
      {dtype_code::Int, 64, BATCHPLAN_INT64},
  };
  for (const Known& known : kKnown) {
    if (type.code == static_cast<uint8_t>(known.code) && type.bits == known.bits) return known.type;
  }
  Refuse("a tensor to be summed is of a type that the kernels do not sum");
}

// One tensor that is packed or unpacked, by its address; Python has checked it.
batchplan_field MakeField(batchplan_content content, uintptr_t source, uintptr_t destination,
                          uint32_t element_size, uint64_t elements_per_token, uint64_t width,
                          int32_t token_shift, const nb::bytes& pad_value) {
  batchplan_field field = {};
  field.content = content;
  field.element_size = element_size;
  field.elements_per_token = elements_per_token;
  field.source = reinterpret_cast<const void*>(source);
  field.destination = reinterpret_cast<void*>(destination);
  field.width = width;
  field.token_shift = token_shift;
  if (pad_value.size() > sizeof field.pad_value) Refuse("pad_value is longer than 16 bytes");
  std::memcpy(field.pad_value, pad_value.c_str(), pad_value.size());
  return field;
}

uint64_t BytesOf(const batchplan_field& field, uint64_t tokens) {
  return tokens * field.elements_per_token * field.element_size;
}

// Of a field on the host, whose destination will be written over so many tokens. Fresh memory is
// then had in pages of 2 MiB where the system has such: zeroing and mapping 4 KiB at a time takes
// several times as long as the copies do.
void ExpectWrites([[maybe_unused]] const batchplan_field& field, [[maybe_unused]] uint64_t tokens) {
#ifdef MADV_HUGEPAGE
  constexpr uintptr_t kPage = uintptr_t{2} << 20;
  const auto address = reinterpret_cast<uintptr_t>(field.destination);
  const uintptr_t begin = (address + kPage - 1) / kPage * kPage;
  const uintptr_t end = (address + BytesOf(field, tokens)) / kPage * kPage;
  // Whole pages alone: all of them are written. What the system refuses costs time, and no more.
  if (begin + kPage < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
#endif
}

// Of a field on the host, its pad value for tokens `first` to `first` + `count`.
void PadTokens(const batchplan_field& field, uint64_t first, uint64_t count) {
  const uint64_t size = BytesOf(field, count);
  if (size == 0) return;
  auto* const to = static_cast<std::byte*>(field.destination) + BytesOf(field, first);
  std::memcpy(to, field.pad_value, field.element_size);
  // Doubles what is written already, in pieces that stay in the first cache.
  constexpr uint64_t kMost = 4096;
  for (uint64_t written = field.element_size; written < size;) {
    const uint64_t next = std::min({written, kMost, size - written});
    std::memcpy(to + written, to, next);
    written += next;
  }
}

// A micro-batch's row on a device. What is enqueued reads its arrays, which the caller keeps.
class Row {
 public:
  Row(batchplan_backend backend, std::shared_ptr<const RowLayout> layout, const batchplan_row& row,
      const uint32_t* sequence_index, batchplan_status* error_word)
      : backend_(backend),
        layout_(std::move(layout)),
        row_(row),
        sequence_index_(sequence_index),
        error_word_(error_word) {}

  void Pack(const std::vector<batchplan_field>& fields, bool indexed, uintptr_t offsets,
            uint64_t num_rows, uint64_t num_tokens, uintptr_t stream) const {
    const batchplan_sequences sequences = Sequences(indexed, offsets, num_rows, num_tokens);
    const Unlocked unlocked;
    if (backend_ == BATCHPLAN_BACKEND_HOST) {
      for (const batchplan_field& field : fields) ExpectWrites(field, PackedTokens());
    }
    Check(batchplan_pack(backend_, &row_, &sequences, fields.data(),
                         static_cast<uint32_t>(fields.size()), error_word_,
                         reinterpret_cast<void*>(stream)));
  }

  // On the host padded rows of other sequences get the pad value too.
  void Unpack(const std::vector<batchplan_field>& fields, bool indexed, uintptr_t offsets,
              uint64_t num_rows, uint64_t num_tokens, uintptr_t stream) const {
    const batchplan_sequences sequences = Sequences(indexed, offsets, num_rows, num_tokens);
    const bool is_padded_on_host =
        backend_ == BATCHPLAN_BACKEND_HOST && sequences.offsets == nullptr;
    const Unlocked unlocked;
    if (is_padded_on_host) {
      for (const batchplan_field& field : fields) ExpectWrites(field, num_rows * field.width);
    }
    Check(batchplan_unpack(backend_, &row_, &sequences, fields.data(),
                           static_cast<uint32_t>(fields.size()), error_word_,
                           reinterpret_cast<void*>(stream)));
    if (is_padded_on_host && indexed) PadOtherRows(fields, num_rows);
  }

  // Of padded rows.
  void UnpackGradient(const Source& source, const Tensor& destination, uint64_t elements_per_token,
                      uint64_t width, bool indexed, uint64_t num_rows, uintptr_t stream) const {
    const batchplan_sequences sequences = Sequences(indexed, 0, num_rows, 0);
    const batchplan_gradient gradient = {.data_type = DataTypeOf(destination.dtype()),
                                         .elements_per_token = elements_per_token,
                                         .width = width,
                                         .source = source.data(),
                                         .destination = destination.data()};
    const Unlocked unlocked;
    Check(batchplan_unpack_gradient(backend_, &row_, &sequences, &gradient, error_word_,
                                    reinterpret_cast<void*>(stream)));
  }

  // Of what `Sum` takes, 0 where it needs none.
  size_t workspace_size() const {
    if (backend_ == BATCHPLAN_BACKEND_HOST) return 0;
    size_t size = 0;
    Check(batchplan_reduce_workspace_size(backend_, row_.num_sequences, row_.options.row_width,
                                          &size));
    return size;
  }

  void Sum(const Source& values, const std::optional<Source>& weights, const Vector<float>& sums,
           const Vector<float>& weight_sums, const std::optional<Vector<uint8_t>>& workspace,
           uintptr_t stream) const {
    batchplan_reduction reduction = {};
    reduction.values = values.data();
    reduction.value_type = DataTypeOf(values.dtype());
    if (weights) {
      reduction.weights = weights->data();
      reduction.weight_type = DataTypeOf(weights->dtype());
    }
    reduction.sums = sums.data();
    reduction.weight_sums = weight_sums.data();
    const Unlocked unlocked;
    Check(batchplan_reduce(backend_, &row_, &reduction, error_word_,
                           workspace ? workspace->data() : nullptr,
                           workspace ? workspace->size() : 0, reinterpret_cast<void*>(stream)));
  }

 private:
  batchplan_sequences Sequences(bool indexed, uintptr_t offsets, uint64_t num_rows,
                                uint64_t num_tokens) const {
    return {.sequence_index = indexed ? sequence_index_ : nullptr,
            .offsets = reinterpret_cast<const int64_t*>(offsets),
            .num_rows = num_rows,
            .num_tokens = num_tokens};
  }

  // Of one rank, or of all of them.
  uint64_t PackedTokens() const {
    const batchplan_layout_options& options = row_.options;
    const bool has_all = row_.context_parallel_rank == BATCHPLAN_ALL_RANKS;
    return has_all ? options.row_width : options.row_width / options.context_parallel;
  }

  // On the host, of padded rows.
  void PadOtherRows(const std::vector<batchplan_field>& fields, uint64_t num_rows) const {
    std::vector<bool> is_planned(num_rows);
    for (uint32_t i = 0; i < row_.num_sequences; ++i) {
      // One without tokens may be anywhere.
      if (sequence_index_[i] < num_rows) is_planned[sequence_index_[i]] = true;
    }
    const auto run_end = [&](uint64_t begin) {
      uint64_t end = begin;
      while (end < num_rows && is_planned[end] == is_planned[begin]) ++end;
      return end;
    };
    for (uint64_t begin = 0, end = 0; begin < num_rows; begin = end) {
      end = run_end(begin);
      if (is_planned[begin]) continue;
      for (const batchplan_field& field : fields) {
        PadTokens(field, begin * field.width, (end - begin) * field.width);
      }
    }
  }

  batchplan_backend backend_;
  // Has the arrays of a row on the host.
  std::shared_ptr<const RowLayout> layout_;
  batchplan_row row_;
  const uint32_t* sequence_index_;
  batchplan_status* error_word_;
};

}  // namespace

void BindKernels(nb::module_& module) {
  nb::class_<batchplan_field>(module, "Field")
      .def(nb::new_(&MakeField), nb::arg("content"), nb::arg("source"), nb::arg("destination"),
           nb::arg("element_size"), nb::arg("elements_per_token"), nb::arg("width"),
           nb::arg("token_shift"), nb::arg("pad_value"));

  const auto array = [](const Vector<const uint32_t>& values) {
    return std::span(values.data(), values.size());
  };
  const auto make_layout =
      [array](const Vector<const uint32_t>& lengths, const Vector<const uint32_t>& indices,
              const std::optional<Vector<const uint32_t>>& shared, uint32_t length_multiple,
              uint32_t row_width, uint32_t sequence_width) {
        const batchplan_layout_options options = {.length_multiple = length_multiple,
                                                  .context_parallel = 1,
                                                  .row_width = row_width,
                                                  .sequence_width = sequence_width,
                                                  .sharding = BATCHPLAN_SHARDING_ZIGZAG};
        return std::make_shared<RowLayout>(array(lengths), array(indices),
                                           shared ? std::optional(array(*shared)) : std::nullopt,
                                           options);
      };
  nb::class_<RowLayout>(module, "RowLayout")
      .def(nb::new_(make_layout), nb::arg("lengths").noconvert(), nb::arg("indices").noconvert(),
           nb::arg("shared").none().noconvert(), nb::arg("length_multiple"), nb::arg("row_width"),
           nb::arg("sequence_width"))
      .def("arrays",
           [](const std::shared_ptr<RowLayout>& layout) {
             return Viewing(layout->arrays(), layout);
           })
      .def_prop_ro("num_tokens", &RowLayout::num_tokens)
      .def_prop_ro("max_seqlen", &RowLayout::max_seqlen)
      .def_prop_ro("max_seqlen_padded", &RowLayout::max_seqlen_padded)
      .def_prop_ro("last_index", &RowLayout::last_index)
      // `offsets` is an address of num_rows + 1 of them.
      .def("has_tokens",
           [](const RowLayout& layout, uintptr_t offsets, size_t num_rows, int64_t num_tokens,
              bool gathered) {
             const auto* const begin = reinterpret_cast<const int64_t*>(offsets);
             return layout.HasTokens({begin, num_rows + 1}, num_tokens, gathered);
           })
      .def("subtree_ends", [](const RowLayout& layout) {
        const auto ends = std::make_shared<std::vector<int32_t>>(layout.SubtreeEnds());
        return Viewing(*ends, ends);
      });

  const auto make_row = [](batchplan_backend backend, std::shared_ptr<RowLayout> layout,
                           uintptr_t arrays, uintptr_t error_word, uint32_t context_parallel,
                           std::optional<uint32_t> context_parallel_rank, bool zigzag) {
    const auto* const own =
        arrays == 0 ? layout->arrays().data() : reinterpret_cast<const int32_t*>(arrays);
    batchplan_row row = layout->RowOf(own);
    row.options.context_parallel = context_parallel;
    row.options.sharding = zigzag ? BATCHPLAN_SHARDING_ZIGZAG : BATCHPLAN_SHARDING_CONTIGUOUS;
    row.context_parallel_rank = context_parallel_rank.value_or(BATCHPLAN_ALL_RANKS);
    // Positions are below 2^31 here: torch has no unsigned ones.
    const auto* const indices = reinterpret_cast<const uint32_t*>(layout->IndicesOf(own));
    return Row(backend, std::move(layout), row, indices,
               reinterpret_cast<batchplan_status*>(error_word));
  };
  const auto add_move = [](nb::class_<Row>& row, const char* name, auto method) {
    row.def(name, method, nb::arg("fields"), nb::arg("indexed"), nb::arg("offsets"),
            nb::arg("num_rows"), nb::arg("num_tokens"), nb::arg("stream"));
  };
  nb::class_<Row> row(module, "Row");
  row.def(nb::new_(make_row), nb::arg("backend"), nb::arg("layout"), nb::arg("arrays"),
          nb::arg("error_word"), nb::arg("context_parallel"),
          nb::arg("context_parallel_rank").none(), nb::arg("zigzag"));
  add_move(row, "pack", &Row::Pack);
  add_move(row, "unpack", &Row::Unpack);
  row.def("unpack_gradient", &Row::UnpackGradient, nb::arg("source"), nb::arg("destination"),
          nb::arg("elements_per_token"), nb::arg("width"), nb::arg("indexed"), nb::arg("num_rows"),
          nb::arg("stream"));
  row.def("sum", &Row::Sum, nb::arg("values"), nb::arg("weights").none(), nb::arg("sums"),
          nb::arg("weight_sums"), nb::arg("workspace").none(), nb::arg("stream"));
  row.def("workspace_size", &Row::workspace_size);
  module.def("backend_status", &batchplan_backend_status);
  module.def("backend_error", &batchplan_backend_error);
  module.def("status_string",
             [](int status) { return std::string(batchplan_status_string(status)); });
}

}  // namespace batchplan::python
