#include "ptx/findings.h"

#include <cstdio>
#include <cstdlib>
#include <utility>

namespace batchplan::ptx {
namespace {

FindingHandler& Handler() {
  static FindingHandler handler = [](const Finding& finding) {
    std::fprintf(stderr, "%s\n", finding.message.c_str());
    std::abort();
  };
  return handler;
}

}  // namespace

FindingHandler SetFindingHandler(FindingHandler handler) {
  return std::exchange(Handler(), std::move(handler));
}

void ReportFinding(const Finding& finding) { Handler()(finding); }

void LaunchFindings::Add(FindingKind kind, const std::string& what, uint32_t block, uint32_t thread,
                         uint32_t at, const std::string& detail) {
  if (!reported_.emplace(kind, at).second) return;
  std::string message = what + ": " + kernel_.text[at] + "\n  " + kernel_.pretty_name +
                        ", PTX line " + std::to_string(kernel_.line[at]);
  if (!kernel_.source_line[at].empty()) message += " (" + kernel_.source_line[at] + ")";
  message += ", block " + std::to_string(block) + ", thread " + std::to_string(thread);
  if (!detail.empty()) message += "\n  " + detail;
  ReportFinding({kind, message});
}

}  // namespace batchplan::ptx
