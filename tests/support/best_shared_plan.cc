#include "tests/support/best_shared_plan.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <vector>

#include "tests/support/naive_tokens.h"

namespace batchplan::testing {
namespace {

uint64_t AtLeastOne(uint64_t value) { return std::max<uint64_t>(value, 1); }

class SharedPartitions {
 public:
  SharedPartitions(const Manifest& manifest, const PlanOptions& options)
      : options_(options),
        pass_(options.passes[0]),
        tokens_(NaiveTokens(manifest)),
        ranks_(AtLeastOne(options.topology.data_parallel)),
        context_(static_cast<double>(AtLeastOne(options.topology.context_parallel))) {
    // Chunks of two a context-parallel rank, each divided among the sequence-parallel ranks.
    const uint64_t chunks =
        (context_ > 1 ? 2 * AtLeastOne(options.topology.context_parallel) : 1) *
        (options.topology.sequence_parallel ? AtLeastOne(options.topology.tensor_parallel) : 1);
    multiple_ = std::lcm(chunks, AtLeastOne(pass_.length_multiple));
    capacity_ = pass_.max_tokens_per_microbatch / multiple_ * multiple_;
    for (const std::vector<Token>& sequence : tokens_) {
      // Whose first token is another's.
      some_share_ =
          some_share_ || sequence[0] >> 32 != static_cast<uint64_t>(&sequence - &tokens_[0]);
    }
    step_ = AtLeastOne(pass_.microbatch_count_multiple);
    fewest_slots_ = (AtLeastOne(pass_.min_microbatches) + step_ - 1) / step_ * step_;
  }

  std::optional<BestPlan> Best() {
    Place(0);
    return best_;
  }

 private:
  using Row = std::vector<uint32_t>;

  uint64_t Aligned(uint64_t tokens) const {
    return (tokens + multiple_ - 1) / multiple_ * multiple_;
  }

  // Sequences from `next` on into the rows so far or a new one.
  void Place(uint32_t next) {
    if (next == tokens_.size()) {
      Deal();
      return;
    }
    for (size_t row = 0; row < rows_.size(); ++row) {
      rows_[row].push_back(next);
      Place(next + 1);
      rows_[row].pop_back();
    }
    rows_.push_back({next});
    Place(next + 1);
    rows_.pop_back();
  }

  // What a row takes; infinity if it can't be.
  double CostOf(Row row) const {
    constexpr double kImpossible = std::numeric_limits<double>::infinity();
    if (pass_.max_sequences_per_microbatch > 0 && row.size() > pass_.max_sequences_per_microbatch) {
      return kImpossible;
    }
    std::ranges::sort(row, [&](uint32_t a, uint32_t b) { return StandsBefore(tokens_, a, b); });
    const CostModel& model = options_.cost_model;
    double cost = model.per_microbatch;
    uint64_t laid = 0;
    for (size_t k = 0; k < row.size(); ++k) {
      const uint64_t tokens = tokens_[row[k]].size();
      const auto length = static_cast<double>(some_share_ ? tokens : Aligned(tokens));
      const double shared = k == 0 ? 0 : NaiveCommon(tokens_[row[k - 1]], tokens_[row[k]]);
      const double attention =
          model.per_token_squared * (length * length - shared * shared) / context_;
      double exchange = ExchangePerToken() * (length - shared) * (1 - 1 / context_);
      if (model.exchange_overlaps) exchange = std::max(0.0, exchange - attention);
      cost += model.per_token * (length - shared) / context_ + attention + exchange +
              model.per_sequence;
      laid += static_cast<uint64_t>(length - shared);
    }
    uint64_t width = Aligned(laid);
    const bool alone = row.size() == 1 && options_.overlong == OverlongPolicy::kAlone;
    if (width > capacity_ && !alone) return kImpossible;
    if (pass_.rows == RowPadding::kCapacity) width = std::max(width, capacity_);
    return cost + model.per_token * static_cast<double>(width - laid) / context_;
  }

  double ExchangePerToken() const {
    for (const ContextExchange& entry : options_.cost_model.exchange) {
      if (entry.up_to_size == 0 || entry.up_to_size >= context_) return entry.per_token;
    }
    return 0;
  }

  void Deal() {
    std::vector<double> costs;
    for (const Row& row : rows_) costs.push_back(CostOf(row));
    if (std::ranges::max(costs) == std::numeric_limits<double>::infinity()) return;
    std::ranges::sort(costs, std::greater<>());
    // Up to such as leave all rows to one rank.
    for (uint64_t slots = fewest_slots_;
         slots < std::max<uint64_t>(costs.size(), fewest_slots_) + step_; slots += step_) {
      const uint64_t places = slots * ranks_;
      if (places < costs.size()) continue;
      if (places > costs.size() && !options_.allow_empty_microbatches) return;
      std::vector<double> dealt = costs;
      dealt.resize(places, options_.cost_model.per_microbatch);
      const double step_time = options_.synchronization == Synchronization::kLockstep
                                   ? Lockstep(dealt)
                                   : Accumulated(dealt, slots);
      if (!best_) best_ = {step_time, static_cast<uint32_t>(places)};
      best_->step_time = std::min(best_->step_time, step_time);
      best_->microbatches = std::min(best_->microbatches, static_cast<uint32_t>(places));
    }
  }

  double Lockstep(const std::vector<double>& costs) const {
    double sum = 0;
    for (size_t first = 0; first < costs.size(); first += ranks_) sum += costs[first];
    return sum;
  }

  double Accumulated(const std::vector<double>& costs, uint64_t slots) const {
    std::vector<double> sums(ranks_, 0);
    std::vector<uint64_t> counts(ranks_, 0);
    double best = std::numeric_limits<double>::infinity();
    const std::function<void(size_t)> place = [&](size_t next) {
      if (next == costs.size()) {
        best = std::min(best, std::ranges::max(sums));
        return;
      }
      for (size_t rank = 0; rank < ranks_; ++rank) {
        if (counts[rank] == slots) continue;
        const double before = sums[rank];
        ++counts[rank];
        sums[rank] += costs[next];
        if (sums[rank] < best) place(next + 1);
        sums[rank] = before;
        // Ranks that have nothing are alike.
        if (--counts[rank] == 0) break;
      }
    };
    place(0);
    return best;
  }

  const PlanOptions& options_;
  const PassOptions& pass_;
  const std::vector<std::vector<Token>> tokens_;
  const uint64_t ranks_;
  const double context_;
  // Else every sequence is aligned by itself.
  bool some_share_ = false;
  uint64_t multiple_ = 1;
  uint64_t capacity_ = 0;
  uint64_t step_ = 1;
  uint64_t fewest_slots_ = 1;
  std::vector<Row> rows_;
  std::optional<BestPlan> best_;
};

}  // namespace

std::optional<BestPlan> BestSharedPlan(const Manifest& manifest, const PlanOptions& options) {
  return SharedPartitions(manifest, options).Best();
}

}  // namespace batchplan::testing
