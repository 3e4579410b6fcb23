#include "server/telemetry/process_metrics.h"

#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <system_error>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "server/telemetry/log_writer.h"
#include "server/telemetry/metric_catalog.h"

namespace batchplan {
namespace {

// Fields of /proc/self/stat, numbered as in proc(5).
constexpr size_t kUserTime = 14;
constexpr size_t kSystemTime = 15;
constexpr size_t kThreads = 20;
constexpr size_t kStartTime = 22;
constexpr size_t kVirtualMemory = 23;
constexpr size_t kResidentPages = 24;

// The numbers in /proc/self/stat. The second field, the program's name in brackets, may have any
// characters, so that fields are counted from its end.
class Stat {
 public:
  Stat() {
    std::ifstream file("/proc/self/stat");
    std::string line;
    std::getline(file, line);
    const size_t end = line.rfind(')');
    if (end != std::string::npos && end + 2 < line.size()) {
      fields_ = absl::StrSplit(line.substr(end + 2), ' ');
    }
  }

  std::optional<double> operator[](size_t number) const {
    constexpr size_t kFirst = 3;
    double value = 0;
    if (number - kFirst >= fields_.size() || !absl::SimpleAtod(fields_[number - kFirst], &value)) {
      return std::nullopt;
    }
    return value;
  }

 private:
  std::vector<std::string> fields_;
};

// When the machine started, in seconds since 1970.
std::optional<double> BootTime() {
  std::ifstream file("/proc/stat");
  std::string word;
  double seconds = 0;
  while (file >> word) {
    if (word == "btime" && file >> seconds) return seconds;
    std::getline(file, word);
  }
  return std::nullopt;
}

std::optional<double> OpenDescriptors() {
  std::error_code error;
  const std::filesystem::directory_iterator entries("/proc/self/fd", error);
  if (error) return std::nullopt;
  // Without the descriptor that is used to count them.
  return static_cast<double>(std::distance(begin(entries), end(entries)) - 1);
}

std::optional<double> MaxDescriptors() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return std::nullopt;
  return static_cast<double>(limit.rlim_cur);
}

std::optional<double> Sum(std::optional<double> a, std::optional<double> b) {
  if (!a || !b) return std::nullopt;
  return *a + *b;
}

std::optional<double> Times(std::optional<double> a, double factor) {
  if (!a) return std::nullopt;
  return *a * factor;
}

void Add(const MetricDefinition& definition, std::optional<double> value,
         std::vector<prometheus::MetricFamily>& families) {
  if (!value) return;
  prometheus::ClientMetric metric;
  prometheus::MetricFamily family;
  family.name = definition.name;
  family.help = definition.help;
  if (definition.type == MetricType::kCounter) {
    family.type = prometheus::MetricType::Counter;
    metric.counter.value = *value;
  } else {
    family.type = prometheus::MetricType::Gauge;
    metric.gauge.value = *value;
  }
  family.metric.push_back(metric);
  families.push_back(family);
}

}  // namespace

std::vector<prometheus::MetricFamily> ProcessMetrics::Collect() const {
  const Stat stat;
  const double second = 1 / static_cast<double>(sysconf(_SC_CLK_TCK));
  const auto page = static_cast<double>(sysconf(_SC_PAGESIZE));
  std::vector<prometheus::MetricFamily> families;
  Add(metric::kLogLinesDropped, static_cast<double>(DroppedLogLines()), families);
  Add(metric::kCpuSeconds, Times(Sum(stat[kUserTime], stat[kSystemTime]), second), families);
  Add(metric::kResidentMemory, Times(stat[kResidentPages], page), families);
  Add(metric::kVirtualMemory, stat[kVirtualMemory], families);
  Add(metric::kOpenDescriptors, OpenDescriptors(), families);
  Add(metric::kMaxDescriptors, MaxDescriptors(), families);
  Add(metric::kThreads, stat[kThreads], families);
  Add(metric::kStartTime, Sum(BootTime(), Times(stat[kStartTime], second)), families);
  return families;
}

}  // namespace batchplan
