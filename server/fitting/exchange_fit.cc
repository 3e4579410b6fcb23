#include "server/fitting/exchange_fit.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

namespace batchplan {
namespace {

// Group sizes that share one exchange cost.
struct Band {
  std::span<const SizeSums> sizes;
  bool exchanges = true;
  // Set by SolveBand.
  double per_token = 0;
};

// The exchange over its standard error: how certain it is.
double CertaintyOf(double exchange, double variance, double scale) {
  const double error = scale * std::sqrt(variance);
  return error > 0 ? exchange / error : std::copysign(1, exchange);
}

std::vector<Band> BandsOf(std::span<const SizeSums> sizes) {
  std::vector<Band> bands;
  const bool has_single = sizes.front().ranks == 1;
  const size_t first = has_single ? 1 : 2;
  bands.push_back({.sizes = sizes.first(first), .exchanges = !has_single});
  for (size_t i = first; i < sizes.size(); ++i) bands.push_back({.sizes = sizes.subspan(i, 1)});
  return bands;
}

void AddTo(const NormalEquations& other, NormalEquations& sums) {
  for (size_t i = 0; i < kColumns; ++i) {
    for (size_t j = 0; j < kColumns; ++j) sums.matrix[i][j] += other.matrix[i][j];
    sums.right[i] += other.right[i];
  }
  sums.square += other.square;
  sums.weight += other.weight;
}

// The products of a band's exchange column, which is (ranks - 1) * tokens, with the other columns,
// with itself and with the target.
struct ExchangeColumn {
  PerColumn with{};
  double square = 0;
  double target = 0;
};

ExchangeColumn ColumnOf(const Band& band) {
  ExchangeColumn column;
  for (const SizeSums& size : band.sizes) {
    const double times = size.ranks - 1;
    for (size_t j = 0; j < kColumns; ++j) column.with[j] += times * size.sums.matrix[0][j];
    column.square += times * times * size.sums.matrix[0][0];
    column.target += times * size.sums.right[0];
  }
  return column;
}

// A band's sums after eliminating its exchange.
NormalEquations Eliminated(const Band& band) {
  NormalEquations sums;
  for (const SizeSums& size : band.sizes) AddTo(size.sums, sums);
  if (!band.exchanges) return sums;
  const ExchangeColumn column = ColumnOf(band);
  for (size_t i = 0; i < kColumns; ++i) {
    for (size_t j = 0; j < kColumns; ++j) {
      sums.matrix[i][j] -= column.with[i] * column.with[j] / column.square;
    }
    sums.right[i] -= column.with[i] * column.target / column.square;
  }
  sums.square -= column.target * column.target / column.square;
  // With a single size, the exchange explains tokens completely; what is left is rounding.
  if (band.sizes.size() == 1) sums.Forget(0);
  return sums;
}

Columns UsedColumns(const PerColumn& coefficients) {
  Columns used = 0;
  for (size_t column = 0; column < kColumns; ++column) {
    if (coefficients[column] > 0) used |= 1U << column;
  }
  return used;
}

// Solves for the band's exchange, given the coefficients of the joint sums. Returns how many
// standard errors it is above 0.
double SolveBand(const NormalEquations& joint, const PerColumn& coefficients, double scale,
                 Band& band) {
  const ExchangeColumn column = ColumnOf(band);
  band.per_token = (column.target - Dot(column.with, coefficients)) / column.square;
  PerColumn share = column.with;
  for (double& entry : share) entry /= column.square;
  double variance = 1 / column.square;
  const std::optional<PerColumn> spread = joint.SolveFor(share, UsedColumns(coefficients), 0);
  if (spread) variance += Dot(share, *spread);
  return CertaintyOf(band.per_token, variance, scale);
}

}  // namespace

NormalEquations& SumsOf(double ranks, SumsBySize& sizes) {
  const auto by_ranks = [](const SizeSums& size, double wanted) { return size.ranks < wanted; };
  auto place = std::lower_bound(sizes.begin(), sizes.end(), ranks, by_ranks);
  if (place != sizes.end() && place->ranks == ranks) return place->sums;
  if (sizes.size() == kMaxContextSizes) {
    sizes.erase(
        std::ranges::min_element(sizes, {}, [](const SizeSums& size) { return size.sums.weight; }));
    place = std::lower_bound(sizes.begin(), sizes.end(), ranks, by_ranks);
  }
  return sizes.insert(place, {.ranks = ranks, .sums = {}})->sums;
}

SharedFit FitShared(std::span<const SizeSums> sizes,
                    const std::function<PerColumn(const NormalEquations&)>& solve, double scale,
                    double certainty) {
  std::vector<Band> bands = BandsOf(sizes);
  SharedFit fit;
  for (;;) {
    NormalEquations joint;
    for (const Band& band : bands) AddTo(Eliminated(band), joint);
    fit.coefficients = solve(joint);
    Band* least = nullptr;
    double least_certain = certainty;
    for (Band& band : bands) {
      if (!band.exchanges) continue;
      const double certain = SolveBand(joint, fit.coefficients, scale, band);
      if (certain > least_certain) continue;
      least_certain = certain;
      least = &band;
    }
    if (least == nullptr) break;
    *least = {.sizes = least->sizes, .exchanges = false};
  }
  const bool any = std::ranges::any_of(bands, &Band::exchanges);
  for (const Band& band : bands) {
    for (const SizeSums& size : band.sizes) {
      if (any && size.ranks > 1) {
        fit.exchange.push_back({.ranks = size.ranks, .per_token = band.per_token});
      }
    }
  }
  return fit;
}

}  // namespace batchplan
