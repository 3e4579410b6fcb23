// What the CUDA kernels ask of a device, counted without one: the instructions that warps issue and
// the 32-byte sectors of memory that they touch. The interpreter of their PTX (tests/kernels/ptx)
// counts them, so that they are equal on every machine.
//
//   build/release/bench/kernel_counts                      a table, as in kernel_counts.md
//   build/release/bench/kernel_counts --lines SHAPE        of one shape, by line of CUDA and PTX
//   build/release/bench/kernel_counts --compare FILE       fails if a count is 10 % above the
//   file's
//
// Large grids are sampled: 256 thread blocks spread over the grid.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "ptx/counts.h"
#include "ptx/executor.h"
#include "tests/bench/kernel_shapes.h"

namespace batchplan::kernels {
namespace {

constexpr uint32_t kSampledBlocks = 256;
constexpr uint32_t kLanes = 32;
constexpr uint64_t kWordBytes = 16;
constexpr uint64_t kSectorBytes = 32;
constexpr int64_t kMostAbovePercent = 10;

// Runs a shape's call, and hands what each launch counted to `take`.
template <typename Take>
void CountLaunches(const Shape& shape, const Take& take) {
  ptx::LaunchOptions& options = ptx::CurrentLaunchOptions();
  options = {};
  options.checks = false;
  options.sampled_blocks = kSampledBlocks;
  options.on_counts = take;
  shape.call();
  options.on_counts = nullptr;
}

// A row of the table in whole numbers, for comparison.
struct Row {
  int64_t warp_instructions = 0;
  int64_t load_sectors = 0;
  int64_t store_sectors = 0;
};

Row Count(const Shape& shape) {
  ptx::Counts total;
  CountLaunches(shape, [&](const ptx::Kernel&, const ptx::LaunchCounter& counter, double scale) {
    total += counter.Total(scale);
  });
  const auto rounded = [](double value) { return static_cast<int64_t>(value + 0.5); };
  return {rounded(total.warp_instructions), rounded(total.load_sectors),
          rounded(total.store_sectors)};
}

std::string WithCommas(int64_t number) {
  const std::string digits = std::to_string(number);
  std::string text;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

constexpr char kPreamble[] =
    "# Counts of the CUDA kernels\n"
    "\n"
    "Of 131,072 tokens, by the interpreter of their PTX; `kernels.Counts` of ctest fails where one "
    "is 10 % above\n"
    "these. Written by\n"
    "```\n"
    "build/release/bench/kernel_counts >tests/bench/kernel_counts.md\n"
    "```\n"
    "Instructions of a token, and of 16 bytes read or written, whichever are more, are those of "
    "single threads. Sectors\n"
    "are beside the least that could be: what the call has to read and write, in sectors of 32 "
    "bytes.\n"
    "\n"
    "| shape | warp instructions | sectors loaded | sectors stored | a token | 16 bytes | loads, "
    "of least | "
    "stores, of least |\n"
    "| --- | --- | --- | --- | --- | --- | --- | --- |\n";

void PrintTable() {
  std::fputs(kPreamble, stdout);
  for (const Shape& shape : TrainingShapes()) {
    const Row row = Count(shape);
    const double instructions = static_cast<double>(row.warp_instructions) * kLanes;
    const auto of = [](double value, uint64_t unit, uint64_t bytes) {
      return value * static_cast<double>(unit) / static_cast<double>(std::max<uint64_t>(bytes, 1));
    };
    std::printf("| %s | %s | %s | %s | %.1f | %.1f | %.2f | %.2f |\n", shape.name.c_str(),
                WithCommas(row.warp_instructions).c_str(), WithCommas(row.load_sectors).c_str(),
                WithCommas(row.store_sectors).c_str(), of(instructions, 1, shape.tokens),
                of(instructions, kWordBytes, std::max(shape.bytes_read, shape.bytes_written)),
                of(static_cast<double>(row.load_sectors), kSectorBytes, shape.bytes_read),
                of(static_cast<double>(row.store_sectors), kSectorBytes, shape.bytes_written));
    std::fflush(stdout);
  }
}

// Prints the lines of the first shape whose name begins with `name`.
int PrintLines(std::string_view name) {
  for (const Shape& shape : TrainingShapes()) {
    if (!shape.name.starts_with(name)) continue;
    std::printf("%s\n", shape.name.c_str());
    CountLaunches(
        shape, [](const ptx::Kernel& kernel, const ptx::LaunchCounter& counter, double scale) {
          std::printf("\n%s: warp issues, load and store sectors, shared wavefronts, of the grid\n",
                      kernel.pretty_name.c_str());
          for (size_t i = 0; i < kernel.code.size(); ++i) {
            const ptx::InstructionCounts& counts = counter.instructions()[i];
            if (counts.warp_issues == 0) continue;
            const auto scaled = [&](uint64_t count) { return static_cast<double>(count) * scale; };
            std::printf("%12.0f %10.0f %10.0f %10.0f  %-28s %6u  %.80s\n",
                        scaled(counts.warp_issues), scaled(counts.load_sectors),
                        scaled(counts.store_sectors), scaled(counts.shared_wavefronts),
                        kernel.source_line[i].c_str(), kernel.line[i], kernel.text[i].c_str());
          }
        });
    return 0;
  }
  std::fprintf(stderr, "no shape begins with \"%.*s\"\n", static_cast<int>(name.size()),
               name.data());
  return 2;
}

// The rows of the table in a file, by shape.
std::map<std::string, Row> ReadTable(const std::string& path) {
  std::map<std::string, Row> rows;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::vector<std::string> cells;
    std::istringstream stream(line);
    for (std::string cell; std::getline(stream, cell, '|');) {
      const size_t begin = cell.find_first_not_of(' ');
      const size_t end = cell.find_last_not_of(' ');
      cells.push_back(begin == std::string::npos ? "" : cell.substr(begin, end - begin + 1));
    }
    if (cells.size() < 5) continue;
    const auto number = [&](size_t i) {
      std::erase(cells[i], ',');
      return std::strtoll(cells[i].c_str(), nullptr, 10);
    };
    rows[cells[1]] = {number(2), number(3), number(4)};
  }
  return rows;
}

int Compare(const std::string& path) {
  std::map<std::string, Row> rows = ReadTable(path);
  bool is_above = false;
  bool is_below = false;
  const auto compare = [&](const std::string& name, const char* what, int64_t now, int64_t then) {
    const bool above = now * 100 > then * (100 + kMostAbovePercent);
    const bool below = now * (100 + kMostAbovePercent) < then * 100;
    is_above |= above;
    is_below |= below;
    std::printf("%s, %s: %s, and %s in the table%s\n", name.c_str(), what, WithCommas(now).c_str(),
                WithCommas(then).c_str(),
                above   ? ": ABOVE"
                : below ? ": below"
                        : "");
  };
  for (const Shape& shape : TrainingShapes()) {
    const auto then = rows.find(shape.name);
    if (then == rows.end()) {
      std::printf("%s: NOT in the table\n", shape.name.c_str());
      is_above = true;
      continue;
    }
    const Row now = Count(shape);
    compare(shape.name, "warp instructions", now.warp_instructions, then->second.warp_instructions);
    compare(shape.name, "sectors loaded", now.load_sectors, then->second.load_sectors);
    compare(shape.name, "sectors stored", now.store_sectors, then->second.store_sectors);
  }
  if (is_above || is_below) {
    std::printf("%s: build/release/bench/kernel_counts >tests/bench/kernel_counts.md\n",
                is_above ? "if that is meant, renew the table" : "better; renew the table");
  }
  return is_above ? 1 : 0;
}

}  // namespace
}  // namespace batchplan::kernels

int main(int argc, char** argv) {
  using namespace batchplan::kernels;  // NOLINT
  if (argc == 1) {
    PrintTable();
    return 0;
  }
  const std::string_view option = argv[1];
  if (argc == 3 && option == "--lines") return PrintLines(argv[2]);
  if (argc == 3 && option == "--compare") return Compare(argv[2]);
  std::fprintf(stderr, "usage: %s [--lines SHAPE | --compare FILE]\n", argv[0]);
  return 2;
}
