// The kernels on the host beside a memcpy of as many bytes. Both are timed in turn, so that other
// load slows both. `of_memcpy` is the median time over memcpy's; bytes_per_second counts written
// bytes.
//
//   build/release/bench/kernels_bench --benchmark_counters_tabular=true

#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <vector>

#include "batchplan/kernels.h"
#include "tests/support/generators.h"

namespace batchplan {
namespace {

using Bytes = std::vector<std::byte>;

// A multiple for every sharding below.
constexpr uint32_t kLengthMultiple = 16;
// Rows of hidden states: 64 MiB in tokens of 8 KiB, more than caches hold.
constexpr uint64_t kRowTokens = 8192;
constexpr uint64_t kFieldTokens = 131072;

double Seconds(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

double Median(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Times `call` and a memcpy of `bytes`, one after the other.
template <typename Call>
void BesideMemcpy(benchmark::State& state, uint64_t bytes, const Call& call) {
  using Clock = std::chrono::steady_clock;
  const Bytes source(bytes, std::byte{1});
  Bytes destination(bytes);
  std::vector<double> ours;
  std::vector<double> memcpys;
  for (auto _ : state) {
    const Clock::time_point begin = Clock::now();
    const batchplan_status status = call();
    const Clock::time_point middle = Clock::now();
    if (bytes > 0) std::memcpy(destination.data(), source.data(), bytes);
    benchmark::DoNotOptimize(destination.data());
    benchmark::ClobberMemory();
    const Clock::time_point end = Clock::now();
    if (status != BATCHPLAN_OK) {
      state.SkipWithError(batchplan_status_string(status));
      break;
    }
    ours.push_back(Seconds(middle - begin));
    memcpys.push_back(Seconds(end - middle));
    state.SetIterationTime(ours.back());
  }
  state.SetBytesProcessed(static_cast<int64_t>(bytes) * static_cast<int64_t>(ours.size()));
  if (!ours.empty()) state.counters["of_memcpy"] = Median(ours) / Median(memcpys);
}

// Answers to school mathematics with `tokens` tokens in all, and their row.
class MicroBatch {
 public:
  MicroBatch(uint64_t tokens, uint32_t context_parallel) : context_parallel_(context_parallel) {
    const std::vector<uint32_t> pool = testing::MathsLengths(tokens / 64, 1);
    for (size_t i = 0; tokens > 0; ++i) {
      lengths_.push_back(static_cast<uint32_t>(std::min<uint64_t>(pool[i], tokens)));
      tokens -= lengths_.back();
    }
    offsets_.assign(1, 0);
    for (const uint32_t length : lengths_) {
      offsets_.push_back(offsets_.back() + length);
      row_width_ += (length + kLengthMultiple - 1) / kLengthMultiple * kLengthMultiple;
    }
    cu_seqlens_.resize(offsets_.size());
    cu_seqlens_padded_.resize(offsets_.size());
    const batchplan_layout_options options = Options();
    batchplan_packed_layout layout{};
    layout.cu_seqlens = cu_seqlens_.data();
    layout.cu_seqlens_padded = cu_seqlens_padded_.data();
    batchplan_compute_layout(BATCHPLAN_BACKEND_HOST, lengths_.data(), nullptr, Count(), &options,
                             &layout, nullptr, nullptr);
  }

  uint32_t Count() const { return static_cast<uint32_t>(lengths_.size()); }
  uint32_t Longest() const { return *std::max_element(lengths_.begin(), lengths_.end()); }
  uint64_t Tokens() const { return static_cast<uint64_t>(offsets_.back()); }
  uint64_t RowWidth() const { return row_width_; }

  batchplan_row Row() const {
    return {.cu_seqlens = cu_seqlens_.data(),
            .cu_seqlens_padded = cu_seqlens_padded_.data(),
            .num_sequences = Count(),
            .options = Options(),
            .context_parallel_rank = BATCHPLAN_ALL_RANKS,
            .least_shared = nullptr};
  }

  batchplan_sequences Padded() const {
    return {.sequence_index = nullptr, .offsets = nullptr, .num_rows = Count(), .num_tokens = 0};
  }

  batchplan_sequences Ragged() const {
    return {.sequence_index = nullptr,
            .offsets = offsets_.data(),
            .num_rows = Count(),
            .num_tokens = Tokens()};
  }

 private:
  batchplan_layout_options Options() const {
    return {.length_multiple = kLengthMultiple,
            .context_parallel = context_parallel_,
            .row_width = row_width_,
            .sequence_width = 0,
            .sharding = BATCHPLAN_SHARDING_ZIGZAG};
  }

  uint32_t context_parallel_;
  uint32_t row_width_ = 0;
  std::vector<uint32_t> lengths_;
  std::vector<int64_t> offsets_;
  std::vector<int32_t> cu_seqlens_;
  std::vector<int32_t> cu_seqlens_padded_;
};

batchplan_field FieldOf(uint32_t element_size, uint64_t elements_per_token, const Bytes& source,
                        Bytes& destination) {
  return {.content = BATCHPLAN_CONTENT_TOKENS,
          .element_size = element_size,
          .elements_per_token = elements_per_token,
          .source = source.data(),
          .destination = destination.data(),
          .width = 0,
          .token_shift = 0,
          .pad_value = {}};
}

// Ragged hidden states of range(0) bf16 each, on range(1) context-parallel ranks.
void PackRows(benchmark::State& state) {
  const MicroBatch batch(kRowTokens, static_cast<uint32_t>(state.range(1)));
  const auto hidden = static_cast<uint64_t>(state.range(0));
  const Bytes source(batch.Tokens() * hidden * 2, std::byte{1});
  Bytes packed(batch.RowWidth() * hidden * 2);
  const batchplan_field field = FieldOf(2, hidden, source, packed);
  const batchplan_row row = batch.Row();
  const batchplan_sequences sequences = batch.Ragged();
  BesideMemcpy(state, packed.size(), [&] {
    return batchplan_pack(BATCHPLAN_BACKEND_HOST, &row, &sequences, &field, 1, nullptr, nullptr);
  });
}

void UnpackRows(benchmark::State& state) {
  const MicroBatch batch(kRowTokens, static_cast<uint32_t>(state.range(1)));
  const auto hidden = static_cast<uint64_t>(state.range(0));
  const Bytes packed(batch.RowWidth() * hidden * 2, std::byte{1});
  Bytes unpacked(batch.Tokens() * hidden * 2);
  const batchplan_field field = FieldOf(2, hidden, packed, unpacked);
  const batchplan_row row = batch.Row();
  const batchplan_sequences sequences = batch.Ragged();
  BesideMemcpy(state, unpacked.size(), [&] {
    return batchplan_unpack(BATCHPLAN_BACKEND_HOST, &row, &sequences, &field, 1, nullptr, nullptr);
  });
}

// Sixteen answers to one prompt, which is half of each, with as many tokens as
// MicroBatch(kRowTokens); and their row.
class Star {
 public:
  Star() {
    constexpr uint32_t kAnswers = 16;
    constexpr uint32_t kLength = kRowTokens / kAnswers;
    for (uint32_t i = 0; i < kAnswers; ++i) {
      lengths_.push_back(kLength);
      shared_.push_back(i == 0 ? 0 : kLength / 2);
      offsets_.push_back(int64_t{i} * kLength);
      row_width_ += kLength - shared_.back();
    }
    offsets_.push_back(kRowTokens);
    cu_seqlens_.resize(kAnswers + 1);
    cu_new_.resize(kAnswers + 1);
    least_shared_.resize(kAnswers);
    const batchplan_row row = Row();
    batchplan_packed_layout layout{};
    layout.cu_seqlens = cu_seqlens_.data();
    layout.cu_seqlens_padded = cu_new_.data();
    layout.least_shared = least_shared_.data();
    batchplan_compute_layout(BATCHPLAN_BACKEND_HOST, lengths_.data(), shared_.data(), kAnswers,
                             &row.options, &layout, nullptr, nullptr);
  }

  uint64_t Tokens() const { return kRowTokens; }
  uint64_t RowWidth() const { return row_width_; }

  batchplan_row Row() const {
    return {.cu_seqlens = cu_seqlens_.data(),
            .cu_seqlens_padded = cu_new_.data(),
            .num_sequences = static_cast<uint32_t>(lengths_.size()),
            .options = {.length_multiple = 1,
                        .context_parallel = 1,
                        .row_width = row_width_,
                        .sequence_width = 0,
                        .sharding = BATCHPLAN_SHARDING_ZIGZAG},
            .context_parallel_rank = 0,
            .least_shared = least_shared_.data()};
  }

  batchplan_sequences Ragged() const {
    return {.sequence_index = nullptr,
            .offsets = offsets_.data(),
            .num_rows = lengths_.size(),
            .num_tokens = Tokens()};
  }

 private:
  uint32_t row_width_ = 0;
  std::vector<uint32_t> lengths_;
  std::vector<uint32_t> shared_;
  std::vector<int64_t> offsets_;
  std::vector<int32_t> cu_seqlens_;
  std::vector<int32_t> cu_new_;
  std::vector<int32_t> least_shared_;
};

void PackStar(benchmark::State& state) {
  const Star star;
  const auto hidden = static_cast<uint64_t>(state.range(0));
  const Bytes source(star.Tokens() * hidden * 2, std::byte{1});
  Bytes packed(star.RowWidth() * hidden * 2);
  const batchplan_field field = FieldOf(2, hidden, source, packed);
  const batchplan_row row = star.Row();
  const batchplan_sequences sequences = star.Ragged();
  BesideMemcpy(state, packed.size(), [&] {
    return batchplan_pack(BATCHPLAN_BACKEND_HOST, &row, &sequences, &field, 1, nullptr, nullptr);
  });
}

void UnpackStar(benchmark::State& state) {
  const Star star;
  const auto hidden = static_cast<uint64_t>(state.range(0));
  const Bytes packed(star.RowWidth() * hidden * 2, std::byte{1});
  Bytes unpacked(star.Tokens() * hidden * 2);
  const batchplan_field field = FieldOf(2, hidden, packed, unpacked);
  const batchplan_row row = star.Row();
  const batchplan_sequences sequences = star.Ragged();
  BesideMemcpy(state, unpacked.size(), [&] {
    return batchplan_unpack(BATCHPLAN_BACKEND_HOST, &row, &sequences, &field, 1, nullptr, nullptr);
  });
}

// Elements have range(1) bits; the bytes are those read.
void UnpackStarGradient(benchmark::State& state) {
  const Star star;
  const auto hidden = static_cast<uint64_t>(state.range(0));
  const uint64_t size = static_cast<uint64_t>(state.range(1)) / 8;
  const Bytes source(star.Tokens() * hidden * size, std::byte{0});
  Bytes gradients(star.RowWidth() * hidden * size);
  const batchplan_gradient gradient = {
      .data_type = size == 2 ? BATCHPLAN_BFLOAT16 : BATCHPLAN_FLOAT32,
      .elements_per_token = hidden,
      .width = 0,
      .source = source.data(),
      .destination = gradients.data()};
  const batchplan_row row = star.Row();
  const batchplan_sequences sequences = star.Ragged();
  BesideMemcpy(state, source.size(), [&] {
    return batchplan_unpack_gradient(BATCHPLAN_BACKEND_HOST, &row, &sequences, &gradient, nullptr,
                                     nullptr);
  });
}

// The fields of a policy gradient step: tokens, labels, mask, log-probabilities, advantages and
// position ids.
constexpr std::array<uint32_t, 6> kFieldSizes = {8, 8, 1, 4, 4, 4};
constexpr size_t kLabels = 1;
constexpr size_t kPositionIds = 5;

class SixFields {
 public:
  // Each field has `source_tokens` and `destination_tokens`; padded sides are `width` wide.
  SixFields(uint64_t source_tokens, uint64_t destination_tokens, uint32_t width) {
    for (size_t i = 0; i < kFieldSizes.size(); ++i) {
      const uint32_t size = kFieldSizes[i];
      sources_[i].assign(source_tokens * size, std::byte{1});
      destinations_[i].resize(destination_tokens * size);
      fields_[i] = FieldOf(size, 1, sources_[i], destinations_[i]);
      fields_[i].width = width;
    }
  }

  batchplan_field& operator[](size_t i) { return fields_[i]; }
  const batchplan_field* Fields() const { return fields_.data(); }
  static uint32_t Count() { return kFieldSizes.size(); }
  static uint64_t BytesPerToken() {
    return std::accumulate(kFieldSizes.begin(), kFieldSizes.end(), uint64_t{0});
  }

 private:
  std::array<Bytes, kFieldSizes.size()> sources_;
  std::array<Bytes, kFieldSizes.size()> destinations_;
  std::array<batchplan_field, kFieldSizes.size()> fields_;
};

// Packs padded tensors for range(0) context-parallel ranks.
void PackFields(benchmark::State& state) {
  const MicroBatch batch(kFieldTokens, static_cast<uint32_t>(state.range(0)));
  SixFields fields(uint64_t{batch.Count()} * batch.Longest(), batch.RowWidth(), batch.Longest());
  fields[kLabels].token_shift = 1;
  fields[kPositionIds].content = BATCHPLAN_CONTENT_POSITION_IDS;
  const batchplan_row row = batch.Row();
  const batchplan_sequences sequences = batch.Padded();
  BesideMemcpy(state, batch.RowWidth() * SixFields::BytesPerToken(), [&] {
    return batchplan_pack(BATCHPLAN_BACKEND_HOST, &row, &sequences, fields.Fields(),
                          SixFields::Count(), nullptr, nullptr);
  });
}

// Unpacks to padded tensors, which are mostly padding.
void UnpackFields(benchmark::State& state) {
  const MicroBatch batch(kFieldTokens, static_cast<uint32_t>(state.range(0)));
  const uint64_t unpacked_tokens = uint64_t{batch.Count()} * batch.Longest();
  SixFields fields(batch.RowWidth(), unpacked_tokens, batch.Longest());
  const batchplan_row row = batch.Row();
  const batchplan_sequences sequences = batch.Padded();
  BesideMemcpy(state, unpacked_tokens * SixFields::BytesPerToken(), [&] {
    return batchplan_unpack(BATCHPLAN_BACKEND_HOST, &row, &sequences, fields.Fields(),
                            SixFields::Count(), nullptr, nullptr);
  });
}

// The loss of each sequence and of the row, from float32 and a mask; the bytes are those read.
void Reduce(benchmark::State& state) {
  const MicroBatch batch(kFieldTokens, static_cast<uint32_t>(state.range(0)));
  const std::vector<float> values(batch.RowWidth(), 0.5F);
  const std::vector<uint8_t> mask(batch.RowWidth(), 1);
  std::vector<float> sums(batch.Count());
  float total = 0;
  batchplan_reduction reduction{};
  reduction.values = values.data();
  reduction.value_type = BATCHPLAN_FLOAT32;
  reduction.weights = mask.data();
  reduction.weight_type = BATCHPLAN_UINT8;
  reduction.sums = sums.data();
  reduction.sum_total = &total;
  size_t workspace_size = 0;
  batchplan_reduce_workspace_size(BATCHPLAN_BACKEND_HOST, batch.Count(), batch.RowWidth(),
                                  &workspace_size);
  // Doubles, for their alignment.
  std::vector<double> workspace((workspace_size + sizeof(double) - 1) / sizeof(double));
  const batchplan_row row = batch.Row();
  BesideMemcpy(state, batch.RowWidth() * (sizeof(float) + sizeof(uint8_t)), [&] {
    return batchplan_reduce(BATCHPLAN_BACKEND_HOST, &row, &reduction, nullptr, workspace.data(),
                            workspace_size, nullptr);
  });
}

// Computes all offsets of range(0) sequences.
void Layout(benchmark::State& state) {
  const std::vector<uint32_t> lengths =
      testing::MathsLengths(static_cast<size_t>(state.range(0)), 1);
  const auto count = static_cast<uint32_t>(lengths.size());
  std::vector<int32_t> cu_seqlens(count + 1);
  std::vector<int32_t> cu_seqlens_padded(count + 1);
  std::vector<int32_t> per_rank(count + 1);
  int32_t max_seqlen = 0;
  int32_t max_seqlen_padded = 0;
  const batchplan_layout_options options = {
      .length_multiple = kLengthMultiple,
      .context_parallel = 8,
      .row_width = INT32_MAX / kLengthMultiple * kLengthMultiple,
      .sequence_width = 0,
      .sharding = BATCHPLAN_SHARDING_ZIGZAG};
  batchplan_packed_layout layout{};
  layout.cu_seqlens = cu_seqlens.data();
  layout.cu_seqlens_padded = cu_seqlens_padded.data();
  layout.cu_seqlens_padded_per_rank = per_rank.data();
  layout.max_seqlen = &max_seqlen;
  layout.max_seqlen_padded = &max_seqlen_padded;
  BesideMemcpy(state, 3 * sizeof(int32_t) * uint64_t{count}, [&] {
    return batchplan_compute_layout(BATCHPLAN_BACKEND_HOST, lengths.data(), nullptr, count,
                                    &options, &layout, nullptr, nullptr);
  });
  state.counters["per_sequence"] =
      benchmark::Counter(static_cast<double>(count), benchmark::Counter::kIsIterationInvariantRate |
                                                         benchmark::Counter::kInvert);
}

// Tokens whose size is a multiple of 16 bytes, and others.
void RowSizes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"bf16", "cp"})->ArgsProduct({{4096, 4095}, {1, 8}});
  bench->UseManualTime()->Unit(benchmark::kMillisecond);
}

void StarSizes(benchmark::internal::Benchmark* bench) {
  bench->ArgName("bf16")->Arg(4096)->Arg(4095)->UseManualTime()->Unit(benchmark::kMillisecond);
}

void Ranks(benchmark::internal::Benchmark* bench) {
  bench->ArgName("cp")->Arg(1)->Arg(8)->UseManualTime()->Unit(benchmark::kMicrosecond);
}

BENCHMARK(PackRows)->Apply(RowSizes);
BENCHMARK(UnpackRows)->Apply(RowSizes);
BENCHMARK(PackStar)->Apply(StarSizes);
BENCHMARK(UnpackStar)->Apply(StarSizes);
BENCHMARK(UnpackStarGradient)
    ->ArgNames({"elements", "bits"})
    ->Args({4096, 16})
    ->Args({2048, 32})
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK(PackFields)->Apply(Ranks);
BENCHMARK(UnpackFields)->Apply(Ranks);
BENCHMARK(Reduce)->Apply(Ranks);
BENCHMARK(Layout)
    ->ArgName("sequences")
    ->Arg(1000)
    ->Arg(100000)
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace batchplan
