#include "server/explain/plan_sentences.h"

#include <utility>

#include "server/explain/deferral.h"
#include "server/explain/explanation.h"

namespace batchplan {

absl::StatusOr<PlanSentences> SentencesOfPlan(const Manifest& manifest, const PlanOptions& options,
                                              const Plan& plan) {
  absl::StatusOr<std::vector<Explanation>> explanations = Explain(manifest, options, plan);
  if (!explanations.ok()) return explanations.status();
  PlanSentences sentences;
  sentences.waiting.reserve(explanations->size());
  for (Explanation& explanation : *explanations) {
    sentences.waiting.push_back(std::move(explanation.sentences));
  }
  sentences.deferral = DeferralOf(manifest, options, plan).sentences;
  return sentences;
}

}  // namespace batchplan
