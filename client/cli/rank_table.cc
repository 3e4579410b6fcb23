#include "client/cli/rank_table.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/microbatches.h"
#include "client/cli/table.h"

namespace batchplan::cli {
namespace {

// The bar of the most expensive rank.
constexpr double kBarLength = 24;

double Fill(const RankLoad& rank, uint32_t budget) {
  const double room = static_cast<double>(rank.microbatches) * budget;
  return room > 0 ? static_cast<double>(rank.true_tokens) / room : 0;
}

double MeanCost(const std::vector<RankLoad>& ranks) {
  double total = 0;
  for (const RankLoad& rank : ranks) total += rank.cost;
  return total > 0 ? total / static_cast<double>(ranks.size()) : 1;
}

double MostCost(const std::vector<RankLoad>& ranks) {
  double most = 0;
  for (const RankLoad& rank : ranks) most = std::max(most, rank.cost);
  return most > 0 ? most : 1;
}

std::string ListRanks(const std::vector<RankLoad>& ranks, uint32_t budget) {
  Table table({Justify::kRight, Justify::kRight, Justify::kRight, Justify::kRight, Justify::kRight,
               Justify::kRight, Justify::kLeft});
  table.AddRow({"rank", "micro-batches", "sequences", "tokens", "fill", "cost / mean", ""});
  const double mean = MeanCost(ranks);
  const double most = MostCost(ranks);
  for (size_t i = 0; i < ranks.size(); ++i) {
    const RankLoad& rank = ranks[i];
    table.AddRow({absl::StrCat(i), WithThousands(rank.microbatches), WithThousands(rank.sequences),
                  WithThousands(rank.true_tokens), Percent(Fill(rank, budget)),
                  absl::StrFormat("%.3f", rank.cost / mean),
                  std::string(std::lround(kBarLength * rank.cost / most), '#')});
  }
  return table.ToString();
}

// Sums up one column: its least, median and most.
template <typename Value, typename Format>
void AddColumn(const std::vector<RankLoad>& ranks, Value value, Format format,
               std::vector<std::vector<std::string>>* rows) {
  std::vector<decltype(value(ranks[0]))> values;
  values.reserve(ranks.size());
  for (const RankLoad& rank : ranks) values.push_back(value(rank));
  std::sort(values.begin(), values.end());
  (*rows)[1].push_back(format(values.front()));
  (*rows)[2].push_back(format(values[values.size() / 2]));
  (*rows)[3].push_back(format(values.back()));
}

std::string SumUpRanks(const std::vector<RankLoad>& ranks, uint32_t budget) {
  std::vector<std::vector<std::string>> rows = {
      {absl::StrCat(WithThousands(ranks.size()), " ranks"), "micro-batches", "sequences", "tokens",
       "fill", "cost / mean"},
      {"least"},
      {"median"},
      {"most"}};
  const double mean = MeanCost(ranks);
  AddColumn(
      ranks, [](const RankLoad& rank) { return rank.microbatches; }, WithThousands, &rows);
  AddColumn(
      ranks, [](const RankLoad& rank) { return rank.sequences; }, WithThousands, &rows);
  AddColumn(
      ranks, [](const RankLoad& rank) { return rank.true_tokens; }, WithThousands, &rows);
  AddColumn(
      ranks, [&](const RankLoad& rank) { return Fill(rank, budget); }, Percent, &rows);
  AddColumn(
      ranks, [&](const RankLoad& rank) { return rank.cost / mean; },
      [](double cost) { return absl::StrFormat("%.3f", cost); }, &rows);

  Table table({Justify::kLeft, Justify::kRight, Justify::kRight, Justify::kRight, Justify::kRight,
               Justify::kRight});
  for (std::vector<std::string>& row : rows) table.AddRow(std::move(row));
  const auto slowest =
      std::max_element(ranks.begin(), ranks.end(),
                       [](const RankLoad& a, const RankLoad& b) { return a.cost < b.cost; });
  return absl::StrCat(table.ToString(), "slowest: rank ", slowest - ranks.begin(), "\n");
}

}  // namespace

std::string FormatRankTable(const std::vector<RankLoad>& ranks, uint32_t budget) {
  return ranks.size() <= kMostRanksListed ? ListRanks(ranks, budget) : SumUpRanks(ranks, budget);
}

}  // namespace batchplan::cli
