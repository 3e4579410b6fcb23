#include "block.h"

#include <ucontext.h>

#include <cstddef>
#include <memory>
#include <vector>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

namespace emulation {
namespace {

constexpr size_t kStackBytes = size_t{64} << 10;

struct Fiber {
  std::unique_ptr<std::byte[]> stack = std::make_unique<std::byte[]>(kStackBytes);
  ucontext_t context = {};
  bool done = true;
};

// Of the block that is running.
ucontext_t scheduler;
Fiber* running = nullptr;
const std::function<void()>* running_body = nullptr;

// The address sanitizer keeps one shadow a stack, and has to be told of every change of stacks.
#ifdef __SANITIZE_ADDRESS__
const void* scheduler_stack = nullptr;
size_t scheduler_stack_bytes = 0;

void EnterFiber(Fiber& fiber) {
  void* fake_stack = nullptr;
  __sanitizer_start_switch_fiber(&fake_stack, fiber.stack.get(), kStackBytes);
  swapcontext(&scheduler, &fiber.context);
  __sanitizer_finish_switch_fiber(fake_stack, nullptr, nullptr);
}

void Arrived() {
  __sanitizer_finish_switch_fiber(nullptr, &scheduler_stack, &scheduler_stack_bytes);
}

void LeaveFiber() {
  void* fake_stack = nullptr;
  __sanitizer_start_switch_fiber(running->done ? nullptr : &fake_stack, scheduler_stack,
                                 scheduler_stack_bytes);
  swapcontext(&running->context, &scheduler);
  __sanitizer_finish_switch_fiber(fake_stack, &scheduler_stack, &scheduler_stack_bytes);
}
#else
void EnterFiber(Fiber& fiber) { swapcontext(&scheduler, &fiber.context); }
void Arrived() {}
void LeaveFiber() { swapcontext(&running->context, &scheduler); }
#endif

void RunFiber() {
  Arrived();
  (*running_body)();
  running->done = true;
  LeaveFiber();
}

}  // namespace

void RunBlock(unsigned int threads, const std::function<void(unsigned int)>& resume,
              const std::function<void()>& body) {
  static std::vector<Fiber> fibers;
  if (fibers.size() < threads) fibers.resize(threads);
  running_body = &body;
  for (unsigned int thread = 0; thread < threads; ++thread) {
    Fiber& fiber = fibers[thread];
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.get();
    fiber.context.uc_stack.ss_size = kStackBytes;
    makecontext(&fiber.context, RunFiber, 0);
    fiber.done = false;
  }
  // Forwards and backwards in turn: what is right in one order only lacks a barrier.
  bool forwards = true;
  for (unsigned int left = threads; left > 0; forwards = !forwards) {
    for (unsigned int i = 0; i < threads; ++i) {
      const unsigned int thread = forwards ? i : threads - 1 - i;
      if (fibers[thread].done) continue;
      running = &fibers[thread];
      resume(thread);
      EnterFiber(fibers[thread]);
      if (fibers[thread].done) --left;
    }
  }
}

void Wait() { LeaveFiber(); }

}  // namespace emulation
