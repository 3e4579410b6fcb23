#include "ptx/executor.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>

#include "ptx/load_store.h"
#include "ptx/thread_block.h"
#include "ptx/values.h"

namespace batchplan::ptx {
namespace {

using Order = LaunchOptions::Order;

// A thread that runs longer waits for something that never happens.
constexpr uint64_t kMostInstructions = uint64_t{1} << 28;
constexpr uint64_t kNoEnd = UINT64_MAX;
// In random order: how many blocks run at once, and how many instructions a thread runs in a turn.
constexpr size_t kBlocksAtOnce = 3;
constexpr uint64_t kMostOfTurn = 40;
// The initial content of shared memory.
constexpr std::byte kFill{0xcd};

LaunchOptions OptionsOfEnvironment() {
  LaunchOptions options;
  const char* const text = std::getenv("BATCHPLAN_PTX_ORDER");
  if (text == nullptr) return options;
  const std::string_view order = text;
  constexpr std::string_view kRandom = "random:";
  if (order == "reverse") {
    options.order = Order::kReverse;
  } else if (order.starts_with(kRandom)) {
    options.order = Order::kRandom;
    options.seed = std::strtoull(text + kRandom.size(), nullptr, 10);
  } else if (order != "forward") {
    std::fprintf(stderr, "BATCHPLAN_PTX_ORDER is %s, but must be forward, reverse or random:SEED\n",
                 text);
    std::abort();
  }
  return options;
}

class Executor {
 public:
  Executor(const Kernel& kernel, Grid grid, const std::vector<std::byte>& parameters)
      : kernel_(kernel),
        grid_(grid),
        options_(CurrentLaunchOptions()),
        findings_(kernel),
        load_store_(kernel, parameters, options_, findings_) {
    // Each launch has its own order.
    random_.seed(CurrentLaunchOptions().seed++);
    if (options_.on_counts) counter_.emplace(kernel);
  }

  Fault Run() {
    const std::vector<uint32_t> blocks = BlocksToRun();
    const size_t at_once = options_.order == Order::kRandom ? kBlocksAtOnce : 1;
    std::vector<std::unique_ptr<ThreadBlock>> running;
    std::vector<std::unique_ptr<ThreadBlock>> spare;
    size_t next = 0;
    while (fault_ == Fault::kNone && (next < blocks.size() || !running.empty())) {
      while (running.size() < at_once && next < blocks.size()) {
        if (spare.empty()) spare.push_back(std::make_unique<ThreadBlock>());
        running.push_back(std::move(spare.back()));
        spare.pop_back();
        Start(*running.back(), blocks[next++]);
      }
      const size_t turn = running.size() == 1 ? 0 : random_() % running.size();
      ThreadBlock& block = *running[turn];
      TakeTurn(block);
      if (block.num_exited < block.num_threads()) continue;
      Count(block);
      spare.push_back(std::move(running[turn]));
      running.erase(running.begin() + static_cast<std::ptrdiff_t>(turn));
    }
    if (counter_.has_value() && fault_ == Fault::kNone) {
      options_.on_counts(kernel_, *counter_,
                         static_cast<double>(grid_.blocks) / static_cast<double>(blocks.size()));
    }
    return fault_;
  }

 private:
  std::vector<uint32_t> BlocksToRun() {
    std::vector<uint32_t> blocks;
    if (options_.sampled_blocks == 0 || grid_.blocks <= options_.sampled_blocks) {
      blocks.resize(grid_.blocks);
      std::iota(blocks.begin(), blocks.end(), 0);
    } else {
      // A random block from each part of the grid, so that samples do not follow a pattern of the
      // grid.
      for (uint64_t i = 0; i < options_.sampled_blocks; ++i) {
        const uint64_t begin = i * grid_.blocks / options_.sampled_blocks;
        const uint64_t end = (i + 1) * grid_.blocks / options_.sampled_blocks;
        blocks.push_back(static_cast<uint32_t>(begin + random_() % (end - begin)));
      }
    }
    if (options_.order == Order::kReverse) std::ranges::reverse(blocks);
    if (options_.order == Order::kRandom) {
      for (size_t i = blocks.size(); i > 1; --i) std::swap(blocks[i - 1], blocks[random_() % i]);
    }
    return blocks;
  }

  void Start(ThreadBlock& block, uint32_t index) {
    block.index = index;
    block.threads.resize(grid_.threads);
    block.slots.resize(grid_.threads * kernel_.num_slots);
    block.local.assign(grid_.threads * kernel_.local_bytes, kFill);
    block.shared.assign(kernel_.shared_bytes, kFill);
    if (options_.checks) block.shared_races.Reset(kernel_.shared_bytes);
    block.epoch = 1;
    block.warp_epochs.assign((grid_.threads + kWarpLanes - 1) / kWarpLanes, 1);
    block.num_ready = grid_.threads;
    block.num_exited = 0;
    for (uint32_t i = 0; i < grid_.threads; ++i) {
      Thread& thread = block.threads[i];
      thread.slots = &block.slots[i * kernel_.num_slots];
      thread.at = 0;
      thread.state = ThreadState::kReady;
      thread.executed = 0;
      if (counter_.has_value()) thread.counter.Reset(kernel_.code.size());
      const uint32_t lane = i % kWarpLanes;
      const uint32_t lane_bit = 1U << lane;
      thread.slots[kThreadIndex] = i;
      thread.slots[kThreads] = grid_.threads;
      thread.slots[kBlockIndex] = index;
      thread.slots[kBlocks] = grid_.blocks;
      thread.slots[kLane] = lane;
      thread.slots[kWarp] = i / kWarpLanes;
      thread.slots[kLaneMaskEq] = lane_bit;
      thread.slots[kLaneMaskLt] = lane_bit - 1;
      thread.slots[kLaneMaskLe] = lane_bit | (lane_bit - 1);
      thread.slots[kLaneMaskGt] = static_cast<uint32_t>(~(lane_bit | (lane_bit - 1)));
      thread.slots[kLaneMaskGe] = static_cast<uint32_t>(~(lane_bit - 1));
      for (const auto& [slot, value] : kernel_.constants) thread.slots[slot] = value;
    }
  }

  void TakeTurn(ThreadBlock& block) {
    const uint32_t n = block.num_threads();
    if (options_.order == Order::kRandom) {
      const auto start = static_cast<uint32_t>(random_() % n);
      for (uint32_t i = 0; i < n; ++i) {
        const uint32_t thread = (start + i) % n;
        if (block.threads[thread].state != ThreadState::kReady) continue;
        RunThread(block, thread, 1 + random_() % kMostOfTurn);
        if (block.threads[thread].state == ThreadState::kInWarpInstruction) {
          RunWarpInstructions(kernel_, block, thread / kWarpLanes, findings_);
        }
        break;
      }
    } else {
      for (uint32_t i = 0; i < n && fault_ == Fault::kNone; ++i) {
        const uint32_t thread = options_.order == Order::kReverse ? n - 1 - i : i;
        if (block.threads[thread].state == ThreadState::kReady) RunThread(block, thread, kNoEnd);
      }
      for (uint32_t warp = 0; warp < block.warp_epochs.size(); ++warp) {
        RunWarpInstructions(kernel_, block, warp, findings_);
      }
    }
    if (fault_ == Fault::kNone && block.num_ready == 0) PassBarrier(block);
  }

  // All threads that have not exited are waiting.
  void PassBarrier(ThreadBlock& block) {
    if (block.num_exited == block.num_threads()) return;
    uint32_t first = 0;
    while (block.threads[first].state == ThreadState::kExited) ++first;
    const uint32_t at = block.threads[first].at;
    uint64_t population = 0;
    uint32_t waiting = 0;
    for (uint32_t i = 0; i < block.num_threads(); ++i) {
      const Thread& thread = block.threads[i];
      if (thread.state == ThreadState::kExited) continue;
      if (thread.state == ThreadState::kInWarpInstruction) {
        findings_.Add(FindingKind::kDeadlock, "waits for lanes that do not come", block.index, i,
                      thread.at);
        fault_ = Fault::kDeadlock;
        return;
      }
      if (thread.at != at) {
        findings_.Add(FindingKind::kDivergence,
                      "thread " + std::to_string(first) + " of its block waits at PTX line " +
                          std::to_string(kernel_.line[at]),
                      block.index, i, thread.at);
      }
      const int predicate = kernel_.code[thread.at].sources[1];
      if (predicate != kNoSlot && thread.slots[predicate] != 0) ++population;
      ++waiting;
    }
    if (waiting < block.num_threads()) {
      findings_.Add(
          FindingKind::kDivergence,
          std::to_string(block.num_threads() - waiting) + " threads of its block have exited",
          block.index, first, at);
    }
    for (Thread& thread : block.threads) {
      if (thread.state != ThreadState::kAtBarrier) continue;
      const Instruction& barrier = kernel_.code[thread.at];
      if (barrier.mode != Mode::kNone) {
        thread.slots[barrier.destinations[0]] = barrier.mode == Mode::kPopulation ? population
                                                : barrier.mode == Mode::kAll ? population == waiting
                                                                             : population > 0;
      }
      block.Resume(thread);
    }
    ++block.epoch;
  }

  // Runs a thread until it waits or exits, or has run `budget` instructions.
  void RunThread(ThreadBlock& block, uint32_t index, uint64_t budget) {
    Thread& thread = block.threads[index];
    uint64_t* const slots = thread.slots;
    const Instruction* const code = kernel_.code.data();
    uint32_t at = thread.at;
    const uint64_t left = kMostInstructions - thread.executed;
    const uint64_t end = std::min(budget, left);
    uint64_t executed = 0;
    for (; executed < end; ++executed) {
      const Instruction& instruction = code[at];
      if (counter_.has_value()) thread.counter.Execute(at);
      if (instruction.guard != kNoSlot &&
          (slots[instruction.guard] != 0) == instruction.skipped_at) {
        ++at;
        continue;
      }
      switch (instruction.opcode) {
        case Opcode::kArithmetic:
          if (instruction.divides) CheckDivisor(block, index, at);
          instruction.arithmetic(slots, instruction);
          break;
        case Opcode::kBranch:
          at = instruction.target;
          continue;
        case Opcode::kLoad:
          fault_ = load_store_.Load(block, index, at);
          if (fault_ != Fault::kNone) return;
          break;
        case Opcode::kStore:
          fault_ = load_store_.Store(block, index, at);
          if (fault_ != Fault::kNone) return;
          break;
        case Opcode::kAtomic:
          fault_ = load_store_.Atomic(block, index, at);
          if (fault_ != Fault::kNone) return;
          break;
        case Opcode::kFence:
          if (instruction.releases) load_store_.Fence(block);
          break;
        case Opcode::kNothing:
          break;
        case Opcode::kExit:
          thread.at = at;
          ++block.num_exited;
          return block.Wait(thread, ThreadState::kExited);
        case Opcode::kBarrier:
          thread.at = at;
          thread.executed += executed;
          return block.Wait(thread, ThreadState::kAtBarrier);
        default:
          thread.at = at;
          thread.executed += executed;
          return block.Wait(thread, ThreadState::kInWarpInstruction);
      }
      ++at;
    }
    thread.at = at;
    thread.executed += executed;
    if (thread.executed < kMostInstructions) return;
    findings_.Add(FindingKind::kDeadlock, "the thread does not end", block.index, index, at);
    fault_ = Fault::kDeadlock;
  }

  void CheckDivisor(ThreadBlock& block, uint32_t thread, uint32_t at) {
    const Instruction& instruction = kernel_.code[at];
    const uint64_t divisor = block.threads[thread].slots[instruction.sources[1]];
    if (Truncate(divisor, instruction.size) != 0) return;
    findings_.Add(FindingKind::kDivisionByZero, "integer division by zero", block.index, thread,
                  at);
  }

  void Count(const ThreadBlock& block) {
    if (!counter_.has_value()) return;
    std::vector<const ThreadCounter*> lanes;
    for (uint32_t warp = 0; warp < block.warp_epochs.size(); ++warp) {
      lanes.clear();
      for (uint32_t lane = 0; lane < block.Lanes(warp); ++lane) {
        lanes.push_back(&block.threads[warp * kWarpLanes + lane].counter);
      }
      counter_->AddWarp(lanes);
    }
  }

  const Kernel& kernel_;
  Grid grid_;
  const LaunchOptions options_;
  std::mt19937_64 random_;
  LaunchFindings findings_;
  LoadStore load_store_;
  std::optional<LaunchCounter> counter_;
  Fault fault_ = Fault::kNone;
};

}  // namespace

LaunchOptions& CurrentLaunchOptions() {
  static auto* const options = new LaunchOptions(OptionsOfEnvironment());
  return *options;
}

Fault RunKernel(const Kernel& kernel, Grid grid, const std::vector<std::byte>& parameters) {
  return Executor(kernel, grid, parameters).Run();
}

}  // namespace batchplan::ptx
