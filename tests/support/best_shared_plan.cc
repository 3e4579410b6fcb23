#include "tests/support/best_shared_plan.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <vector>

#include "tests/support/naive_tokens.h"

namespace batchplan::testing {
namespace {

uint64_t AtLeastOne(uint64_t value) { return std::max<uint64_t>(value, 1); }

class SharedPartitions {
 public:
  SharedPartitions(const Manifest& manifest, const PlanOptions& options)
      : manifest_(manifest),
        options_(options),
        pass_(options.passes[0]),
        tokens_(NaiveTokens(manifest)),
        ranks_(AtLeastOne(options.topology.data_parallel)),
        context_(static_cast<double>(AtLeastOne(options.topology.context_parallel))) {
    // Two chunks for each context-parallel rank, each divided among the sequence-parallel ranks.
    const uint64_t chunks =
        (context_ > 1 ? 2 * AtLeastOne(options.topology.context_parallel) : 1) *
        (options.topology.sequence_parallel ? AtLeastOne(options.topology.tensor_parallel) : 1);
    multiple_ = std::lcm(chunks, AtLeastOne(pass_.length_multiple));
    capacity_ = pass_.max_tokens_per_microbatch / multiple_ * multiple_;
    for (const std::vector<Token>& sequence : tokens_) {
      // Whether its first token is that of another sequence.
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

  // Puts the sequences from `next` on into open rows or a new one.
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

  // The cost of a row; infinity if the row breaks a limit.
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
    if (!KeepsGroups()) return;
    costs_.clear();
    for (const Row& row : rows_) costs_.push_back(CostOf(row));
    if (std::ranges::max(costs_) == std::numeric_limits<double>::infinity()) return;
    // Tries slots until one rank could have all rows.
    const uint64_t most = std::max<uint64_t>(rows_.size(), fewest_slots_) + step_;
    for (uint64_t slots = fewest_slots_; slots < most; slots += step_) {
      const uint64_t places = slots * ranks_;
      if (places < rows_.size()) continue;
      if (places > rows_.size() && !options_.allow_empty_microbatches) return;
      slots_ = slots;
      dealt_ = std::numeric_limits<double>::infinity();
      rank_of_.assign(tokens_.size(), kNowhere);
      of_rank_.assign(ranks_, {});
      DealFrom(0);
      if (dealt_ == std::numeric_limits<double>::infinity()) continue;
      if (!best_) best_ = {dealt_, static_cast<uint32_t>(places)};
      best_->step_time = std::min(best_->step_time, dealt_);
      best_->microbatches = std::min(best_->microbatches, static_cast<uint32_t>(places));
    }
  }

  bool IsKept(GroupPolicy policy) const {
    return !manifest_.group_ids.empty() && options_.mini_batches.groups == policy;
  }

  bool KeepsGroups() const {
    if (!IsKept(GroupPolicy::kSameMicrobatch)) return true;
    std::map<uint32_t, size_t> row_of;
    for (size_t row = 0; row < rows_.size(); ++row) {
      for (const uint32_t sequence : rows_[row]) {
        const uint32_t id = manifest_.group_ids[sequence];
        if (row_of.try_emplace(id, row).first->second != row) return false;
      }
    }
    return true;
  }

  // Deals the rows from `next` on to ranks with free slots.
  void DealFrom(size_t next) {
    if (next == rows_.size()) {
      if (HasItsRanks()) dealt_ = std::min(dealt_, StepTime());
      return;
    }
    for (size_t rank = 0; rank < ranks_; ++rank) {
      const bool was_free = of_rank_[rank].empty();
      if (of_rank_[rank].size() == slots_) continue;
      of_rank_[rank].push_back(costs_[next]);
      for (const uint32_t sequence : rows_[next]) rank_of_[sequence] = static_cast<uint32_t>(rank);
      DealFrom(next + 1);
      of_rank_[rank].pop_back();
      // Ranks without rows are interchangeable.
      if (was_free && manifest_.ranks.empty()) break;
    }
  }

  // Whether ranks, groups and equal counts are as required.
  bool HasItsRanks() const {
    std::map<uint32_t, uint32_t> rank_of_group;
    std::vector<uint32_t> counts(ranks_, 0);
    for (size_t i = 0; i < rank_of_.size(); ++i) {
      ++counts[rank_of_[i]];
      if (!manifest_.ranks.empty() && manifest_.ranks[i] != rank_of_[i]) return false;
      if (!IsKept(GroupPolicy::kSameRank)) continue;
      const auto group = rank_of_group.try_emplace(manifest_.group_ids[i], rank_of_[i]).first;
      if (group->second != rank_of_[i]) return false;
    }
    if (!pass_.keeps_counts()) return true;
    const auto apart = std::ranges::max(counts) - std::ranges::min(counts);
    return apart == 0 || (pass_.sequence_counts == EqualCounts::kWithinOne && apart == 1);
  }

  // Sorts each rank's rows by descending cost, with empty ones at the end.
  double StepTime() const {
    const double empty = options_.cost_model.per_microbatch;
    std::vector<double> slowest(slots_, empty);
    double longest = 0;
    for (std::vector<double> costs : of_rank_) {
      costs.resize(slots_, empty);
      std::ranges::sort(costs, std::greater<>());
      longest = std::max(longest, std::accumulate(costs.begin(), costs.end(), 0.0));
      for (size_t slot = 0; slot < slots_; ++slot) {
        slowest[slot] = std::max(slowest[slot], costs[slot]);
      }
    }
    if (options_.synchronization == Synchronization::kAccumulated) return longest;
    return std::accumulate(slowest.begin(), slowest.end(), 0.0);
  }

  static constexpr uint32_t kNowhere = std::numeric_limits<uint32_t>::max();

  const Manifest& manifest_;
  const PlanOptions& options_;
  const PassOptions& pass_;
  const std::vector<std::vector<Token>> tokens_;
  const uint64_t ranks_;
  const double context_;
  // If no sequences share, each one is aligned by itself.
  bool some_share_ = false;
  uint64_t multiple_ = 1;
  uint64_t capacity_ = 0;
  uint64_t step_ = 1;
  uint64_t fewest_slots_ = 1;
  std::vector<Row> rows_;
  // The costs of rows, and the ranks they are dealt to, each with this number of slots.
  std::vector<double> costs_;
  std::vector<std::vector<double>> of_rank_;
  std::vector<uint32_t> rank_of_;  // by sequence
  uint64_t slots_ = 1;
  double dealt_ = 0;  // the least step time
  std::optional<BestPlan> best_;
};

}  // namespace

std::optional<BestPlan> BestSharedPlan(const Manifest& manifest, const PlanOptions& options) {
  return SharedPartitions(manifest, options).Best();
}

}  // namespace batchplan::testing
