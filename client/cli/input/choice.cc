#include "client/cli/input/choice.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace batchplan::cli {
namespace {

// CLI11 writes this between an option's type and a validator's description; OneOf's description
// begins with it.
constexpr char kChoicesBegin[] = ":{";

std::string Comparable(absl::string_view word) {
  word.remove_prefix(std::min(word.find_first_not_of('-'), word.size()));
  std::string comparable = absl::AsciiStrToLower(word);
  std::ranges::replace(comparable, '-', '_');
  return comparable;
}

// The fewest characters to insert, delete, replace, or swap with a neighbour (optimal string
// alignment). Time and memory are O(size of a * size of b).
size_t EditDistance(absl::string_view a, absl::string_view b) {
  std::vector<std::vector<size_t>> distance(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) {
    for (size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        distance[i][j] = i + j;
        continue;
      }
      distance[i][j] = std::min({distance[i - 1][j] + 1, distance[i][j - 1] + 1,
                                 distance[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        distance[i][j] = std::min(distance[i][j], distance[i - 2][j - 2] + 1);
      }
    }
  }
  return distance[a.size()][b.size()];
}

}  // namespace

std::string DidYouMean(absl::string_view typed, const std::vector<std::string>& words) {
  const std::string wrong = Comparable(typed);
  size_t nearest = std::max<size_t>(1, wrong.size() / 3) + 1;
  absl::string_view meant;
  for (const std::string& word : words) {
    // The difference in size is a lower bound of the distance.
    if (wrong.size() >= word.size() + nearest) continue;
    if (const size_t distance = EditDistance(wrong, Comparable(word)); distance < nearest) {
      nearest = distance;
      meant = word;
    }
  }
  return meant.empty() ? "" : absl::StrCat("; did you mean ", meant, "?");
}

CLI::Validator OneOf(const std::vector<std::string>& words) {
  return {[words](const std::string& text) -> std::string {
            if (std::ranges::find(words, text) != words.end()) return "";
            return absl::StrCat("\"", text, "\" is not one of ", absl::StrJoin(words, ", "),
                                DidYouMean(text, words));
          },
          absl::StrCat("{", absl::StrJoin(words, ","), "}")};
}

std::vector<std::string> Choices(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const size_t begin = type.find(kChoicesBegin);
  if (begin == std::string::npos) return {};
  const size_t first = type.find('{', begin) + 1;
  return absl::StrSplit(type.substr(first, type.find('}', first) - first), ',');
}

std::string ValueName(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  return type.substr(0, type.find(kChoicesBegin));
}

}  // namespace batchplan::cli
