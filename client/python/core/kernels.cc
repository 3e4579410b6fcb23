#include "batchplan/kernels.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/python/core/bindings.h"
#include "client/python/core/status_error.h"
#include "client/python/core/unlocked.h"

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

batchplan_backend BackendOf(int device_type) {
  if (device_type == nb::device::cpu::value) return BATCHPLAN_BACKEND_HOST;
  if (device_type == nb::device::cuda::value) return BATCHPLAN_BACKEND_CUDA;
  Refuse(absl::StrCat("a tensor is on a device of DLPack's type ", device_type,
                      "; must be 1, the host, or 2, CUDA"));
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

// One tensor that is packed or unpacked; Python has checked its shape.
struct Field {
  batchplan_content content;
  std::optional<Source> source;
  Tensor destination;
  uint64_t elements_per_token;
  uint64_t width;
  int32_t token_shift;
  std::array<unsigned char, 16> pad_value;

  batchplan_field view() const {
    batchplan_field field = {};
    field.content = content;
    field.element_size = destination.dtype().bits * destination.dtype().lanes / 8;
    field.elements_per_token = elements_per_token;
    field.source = source ? source->data() : nullptr;
    field.destination = destination.data();
    field.width = width;
    field.token_shift = token_shift;
    std::copy(pad_value.begin(), pad_value.end(), field.pad_value);
    return field;
  }
};

Field MakeField(batchplan_content content, std::optional<Source> source, Tensor destination,
                uint64_t elements_per_token, uint64_t width, int32_t token_shift,
                const nb::bytes& pad_value) {
  Field field = {
      content, std::move(source), std::move(destination), elements_per_token, width, token_shift,
      {}};
  if (pad_value.size() > field.pad_value.size()) Refuse("pad_value is longer than 16 bytes");
  std::copy_n(pad_value.c_str(), pad_value.size(), field.pad_value.begin());
  return field;
}

// A micro-batch's row on a device. What is enqueued reads its arrays, which the caller keeps.
class Row {
 public:
  Row(Vector<const int32_t> cu_seqlens, Vector<const int32_t> cu_seqlens_padded,
      Vector<const int32_t> sequence_index, std::optional<Vector<const int32_t>> least_shared,
      std::optional<Vector<int32_t>> error_word, const batchplan_layout_options& options,
      std::optional<uint32_t> context_parallel_rank)
      : cu_seqlens_(std::move(cu_seqlens)),
        cu_seqlens_padded_(std::move(cu_seqlens_padded)),
        sequence_index_(std::move(sequence_index)),
        least_shared_(std::move(least_shared)),
        error_word_(std::move(error_word)),
        backend_(BackendOf(cu_seqlens_.device_type())) {
    if (cu_seqlens_.size() != cu_seqlens_padded_.size() ||
        cu_seqlens_.size() != sequence_index_.size() + 1 ||
        (least_shared_ && least_shared_->size() != sequence_index_.size())) {
      Refuse("the row's arrays do not fit each other");
    }
    row_ = {.cu_seqlens = cu_seqlens_.data(),
            .cu_seqlens_padded = cu_seqlens_padded_.data(),
            .num_sequences = static_cast<uint32_t>(sequence_index_.size()),
            .options = options,
            .context_parallel_rank = context_parallel_rank.value_or(BATCHPLAN_ALL_RANKS),
            .least_shared = LeastShared()};
  }

  template <auto kMove>
  void Move(const std::vector<Field>& fields, bool indexed,
            const std::optional<Vector<const int64_t>>& offsets, uint64_t num_rows,
            uint64_t num_tokens, uintptr_t stream) const {
    const batchplan_sequences sequences = {.sequence_index = Index(indexed),
                                           .offsets = offsets ? offsets->data() : nullptr,
                                           .num_rows = num_rows,
                                           .num_tokens = num_tokens};
    std::vector<batchplan_field> views;
    views.reserve(fields.size());
    for (const Field& field : fields) {
      if (BackendOf(field.destination.device_type()) != backend_) {
        Refuse("a tensor is on another device than its row");
      }
      views.push_back(field.view());
    }
    const Unlocked unlocked;
    Check(kMove(backend_, &row_, &sequences, views.data(), static_cast<uint32_t>(views.size()),
                error_word(), reinterpret_cast<void*>(stream)));
  }

  // Of padded rows.
  void UnpackGradient(const Source& source, const Tensor& destination, uint64_t elements_per_token,
                      uint64_t width, bool indexed, uint64_t num_rows, uintptr_t stream) const {
    const batchplan_sequences sequences = {.sequence_index = Index(indexed),
                                           .offsets = nullptr,
                                           .num_rows = num_rows,
                                           .num_tokens = 0};
    const batchplan_gradient gradient = {.data_type = DataTypeOf(destination.dtype()),
                                         .elements_per_token = elements_per_token,
                                         .width = width,
                                         .source = source.data(),
                                         .destination = destination.data()};
    const Unlocked unlocked;
    Check(batchplan_unpack_gradient(backend_, &row_, &sequences, &gradient, error_word(),
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
    Check(batchplan_reduce(backend_, &row_, &reduction, error_word(),
                           workspace ? workspace->data() : nullptr,
                           workspace ? workspace->size() : 0, reinterpret_cast<void*>(stream)));
  }

 private:
  // An empty tensor has no address, but its row shares prefixes.
  const int32_t* LeastShared() const {
    static constexpr int32_t kNone = 0;
    if (!least_shared_) return nullptr;
    return least_shared_->size() > 0 ? least_shared_->data() : &kNone;
  }
  // Positions are below 2^31 here: torch has no unsigned ones.
  const uint32_t* Index(bool indexed) const {
    return indexed ? reinterpret_cast<const uint32_t*>(sequence_index_.data()) : nullptr;
  }
  batchplan_status* error_word() const { return error_word_ ? error_word_->data() : nullptr; }

  Vector<const int32_t> cu_seqlens_;
  Vector<const int32_t> cu_seqlens_padded_;
  Vector<const int32_t> sequence_index_;
  std::optional<Vector<const int32_t>> least_shared_;
  std::optional<Vector<int32_t>> error_word_;
  batchplan_backend backend_;
  batchplan_row row_;
};

// Writes what PackedRow needs of a row whose sequences have `lengths` tokens, on the host. Without
// `shared` prefixes are not; without `subtree_end` it is not needed.
void LayOut(const Vector<const uint32_t>& lengths,
            const std::optional<Vector<const uint32_t>>& shared,
            const Vector<int32_t>& least_shared, const std::optional<Vector<int32_t>>& subtree_end,
            uint32_t length_multiple, uint32_t row_width, uint32_t sequence_width) {
  const auto count = static_cast<uint32_t>(lengths.size());
  if ((shared && shared->size() != count) || least_shared.size() != count ||
      (subtree_end && subtree_end->size() != row_width)) {
    Refuse("the row's arrays do not fit each other");
  }
  std::vector<int32_t> cu_seqlens(lengths.size() + 1);
  std::vector<int32_t> cu_seqlens_padded(lengths.size() + 1);
  const batchplan_layout_options options = {.length_multiple = length_multiple,
                                            .context_parallel = 1,
                                            .row_width = row_width,
                                            .sequence_width = sequence_width,
                                            .sharding = BATCHPLAN_SHARDING_ZIGZAG};
  batchplan_packed_layout layout = {};
  layout.cu_seqlens = cu_seqlens.data();
  layout.cu_seqlens_padded = cu_seqlens_padded.data();
  layout.least_shared = least_shared.data();
  layout.subtree_end = subtree_end ? subtree_end->data() : nullptr;
  const Unlocked unlocked;
  Check(batchplan_compute_layout(BATCHPLAN_BACKEND_HOST, lengths.data(),
                                 shared ? shared->data() : nullptr, count, &options, &layout,
                                 nullptr, nullptr));
}

}  // namespace

void BindKernels(nb::module_& module) {
  nb::class_<Field>(module, "Field")
      .def(nb::new_(&MakeField), nb::arg("content"), nb::arg("source").none(),
           nb::arg("destination"), nb::arg("elements_per_token"), nb::arg("width"),
           nb::arg("token_shift"), nb::arg("pad_value"));

  const auto make_row =
      [](Vector<const int32_t> cu_seqlens, Vector<const int32_t> cu_seqlens_padded,
         Vector<const int32_t> sequence_index, std::optional<Vector<const int32_t>> least_shared,
         std::optional<Vector<int32_t>> error_word, uint32_t length_multiple, uint32_t row_width,
         uint32_t sequence_width, uint32_t context_parallel,
         std::optional<uint32_t> context_parallel_rank, bool zigzag) {
        const batchplan_layout_options options = {
            .length_multiple = length_multiple,
            .context_parallel = context_parallel,
            .row_width = row_width,
            .sequence_width = sequence_width,
            .sharding = zigzag ? BATCHPLAN_SHARDING_ZIGZAG : BATCHPLAN_SHARDING_CONTIGUOUS};
        return Row(std::move(cu_seqlens), std::move(cu_seqlens_padded), std::move(sequence_index),
                   std::move(least_shared), std::move(error_word), options, context_parallel_rank);
      };
  const auto add_move = [](nb::class_<Row>& row, const char* name, auto method) {
    row.def(name, method, nb::arg("fields"), nb::arg("indexed"), nb::arg("offsets").none(),
            nb::arg("num_rows"), nb::arg("num_tokens"), nb::arg("stream"));
  };
  nb::class_<Row> row(module, "Row");
  row.def(nb::new_(make_row), nb::arg("cu_seqlens"), nb::arg("cu_seqlens_padded"),
          nb::arg("sequence_index"), nb::arg("least_shared").none(), nb::arg("error_word").none(),
          nb::kw_only(), nb::arg("length_multiple"), nb::arg("row_width"),
          nb::arg("sequence_width"), nb::arg("context_parallel"),
          nb::arg("context_parallel_rank").none(), nb::arg("zigzag"));
  add_move(row, "pack", &Row::Move<&batchplan_pack>);
  add_move(row, "unpack", &Row::Move<&batchplan_unpack>);
  row.def("unpack_gradient", &Row::UnpackGradient, nb::arg("source"), nb::arg("destination"),
          nb::arg("elements_per_token"), nb::arg("width"), nb::arg("indexed"), nb::arg("num_rows"),
          nb::arg("stream"));
  row.def("sum", &Row::Sum, nb::arg("values"), nb::arg("weights").none(), nb::arg("sums"),
          nb::arg("weight_sums"), nb::arg("workspace").none(), nb::arg("stream"));
  row.def("workspace_size", &Row::workspace_size);
  module.def("lay_out", &LayOut, nb::arg("lengths").noconvert(),
             nb::arg("shared").none().noconvert(), nb::arg("least_shared").noconvert(),
             nb::arg("subtree_end").none().noconvert(), nb::kw_only(), nb::arg("length_multiple"),
             nb::arg("row_width"), nb::arg("sequence_width"));
  module.def("backend_status", &batchplan_backend_status);
  module.def("backend_error", &batchplan_backend_error);
  module.def("status_string",
             [](int status) { return std::string(batchplan_status_string(status)); });
}

}  // namespace batchplan::python
