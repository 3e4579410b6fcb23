#include "client/cpp/examples/worker/step_results.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace batchplan::examples {
namespace {

constexpr double kOtherOrder = 1e-6;

template <typename T>
double Difference(const std::vector<T>& actual, const std::vector<T>& expected) {
  if (actual.size() != expected.size()) return std::numeric_limits<double>::infinity();
  double largest = 0;
  double difference = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    if (!std::isfinite(actual[i]) || !std::isfinite(expected[i])) {
      return std::numeric_limits<double>::infinity();
    }
    largest = std::max(largest, std::abs(double{expected[i]}));
    difference = std::max(difference, std::abs(double{actual[i]} - double{expected[i]}));
  }
  return difference == 0 ? 0 : difference / largest;
}

}  // namespace

StepResults ZeroResults(const Batch& batch, const Model& model) {
  StepResults results;
  results.token_losses.resize(batch.sequences() * batch.width);
  results.hidden_gradients.resize(batch.sequences() * batch.width * kHidden);
  results.sequence_means.resize(batch.sequences());
  results.gradients = ZeroGradients(model);
  return results;
}

double LargestDifference(const std::vector<double>& actual, const std::vector<double>& expected) {
  return Difference(actual, expected);
}

double LargestDifference(const std::vector<float>& actual, const std::vector<float>& expected) {
  return Difference(actual, expected);
}

std::vector<ComparedQuantity> Compare(const StepResults& ranks, const StepResults& padded,
                                      const std::vector<float>& padded_means,
                                      bool whole_sequences) {
  const auto compare = [](const char* name, const auto& actual, const auto& expected,
                          double allowed) {
    return ComparedQuantity{name, expected.size(), LargestDifference(actual, expected), allowed};
  };
  return {
      compare("loss of a token", ranks.token_losses, padded.token_losses, 0),
      compare("gradient of a hidden state", ranks.hidden_gradients, padded.hidden_gradients, 0),
      compare("mean loss of a sequence", ranks.sequence_means, padded.sequence_means, kOtherOrder),
      compare("the same, padded and reduced", ranks.sequence_means, padded_means,
              whole_sequences ? 0 : kOtherOrder),
      compare("loss of the batch", std::vector<double>{ranks.loss},
              std::vector<double>{padded.loss}, kOtherOrder),
      compare("gradient of the tokens' table", ranks.gradients.token_table,
              padded.gradients.token_table, kOtherOrder),
      compare("gradient of the positions' table", ranks.gradients.position_table,
              padded.gradients.position_table, kOtherOrder)};
}

std::string TableOf(const std::vector<ComparedQuantity>& quantities) {
  std::string table = absl::StrFormat("%-34s%10s%14s%10s\n", "ranks against the padded batch",
                                      "values", "difference", "allowed");
  for (const ComparedQuantity& quantity : quantities) {
    absl::StrAppendFormat(&table, "%-34s%10d%14.2g%10.2g%s\n", quantity.name, quantity.values,
                          quantity.difference, quantity.allowed,
                          quantity.agrees() ? "" : "  MISMATCH");
  }
  return table;
}

std::string Disagreement(const std::vector<ComparedQuantity>& quantities) {
  std::string sentence;
  for (const ComparedQuantity& quantity : quantities) {
    if (quantity.agrees()) continue;
    absl::StrAppend(&sentence, sentence.empty() ? "" : "; ",
                    absl::StrFormat("%s differs by %.3g, more than the %.3g allowed", quantity.name,
                                    quantity.difference, quantity.allowed));
  }
  return sentence;
}

}  // namespace batchplan::examples
