#include "server/explain/deferral.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace batchplan {
namespace {

std::string Count(uint64_t number, absl::string_view noun) {
  return absl::StrCat(number, " ", noun, number == 1 ? "" : "s");
}

std::string TargetText(const Selection& selection) {
  if (selection.sequences > 0) return Count(selection.sequences, "sequence");
  if (selection.groups > 0) return Count(selection.groups, "group");
  return absl::StrCat("at most ", selection.max_tokens, " tokens");
}

std::vector<std::string> SentencesOf(const Selection& selection, const Deferral& deferral) {
  std::vector<std::string> sentences;
  if (deferral.behind > 0) {
    sentences.push_back(
        absl::StrCat(Count(deferral.behind, "sequence"), deferral.behind == 1 ? " waits" : " wait",
                     " behind the last that is taken: the step has ", TargetText(selection), "."));
  }
  if (deferral.passed > 0) {
    sentences.push_back(absl::StrCat(
        Count(deferral.passed, "sequence"), deferral.passed == 1 ? " was" : " were",
        " passed by later ones, for a step whose ranks wait less; max_overtaking allows ",
        selection.max_overtaking, "."));
  }
  if (deferral.taken_for_age > 0) {
    sentences.push_back(absl::StrCat(
        Count(deferral.taken_for_age, "sequence"), deferral.taken_for_age == 1 ? " was" : " were",
        " taken since max_age ", selection.max_age, " would leave no later step."));
  }
  if (deferral.expired > 0) {
    sentences.push_back(absl::StrCat(Count(deferral.expired, "sequence"),
                                     deferral.expired == 1 ? " is" : " are", " older than max_age ",
                                     selection.max_age, ", and left out."));
  }
  return sentences;
}

}  // namespace

Deferral DeferralOf(const Manifest& manifest, const PlanOptions& options, const Plan& plan) {
  Deferral deferral;
  if (!options.selection || plan.passes.empty()) return deferral;
  const Selection& selection = *options.selection;
  const auto must_be_taken = [&](uint32_t sequence) {
    return selection.max_age > 0 && sequence < manifest.ages.size() &&
           manifest.ages[sequence] >= selection.max_age;
  };
  uint32_t last = 0;
  for (const uint32_t sequence : plan.passes.front().sequence_index) {
    ++deferral.taken;
    if (must_be_taken(sequence)) {
      ++deferral.taken_for_age;
    } else {
      last = std::max(last, sequence);
    }
  }
  for (const uint32_t sequence : plan.deferred) {
    ++deferral.deferred;
    ++(sequence > last ? deferral.behind : deferral.passed);
  }
  for (const ExcludedSequence& sequence : plan.excluded) {
    if (sequence.reason == ExclusionReason::kExpired) ++deferral.expired;
  }
  deferral.sentences = SentencesOf(selection, deferral);
  return deferral;
}

}  // namespace batchplan
