#include "client/python/core/planning.h"

#include <nanobind/nanobind.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "batchplan/v1/batch_planner.pb.h"
#include "client/python/core/kept_thread.h"
#include "client/python/core/status_error.h"
#include "client/python/core/unlocked.h"
#include "proto/batchplan/v1/convert.h"
#include "proto/batchplan/v1/json.h"
#include "server/planner/make_plan.h"
#include "server/planner/request/context_sizes.h"

namespace nb = nanobind;

namespace batchplan::python {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kSignalInterval(100);
// A longer time could overflow the clock.
constexpr double kLongest = 86400.0 * 365;

// The ranks that have micro-batches of their own.
uint32_t RanksOf(const Topology& topology) {
  return topology.dynamic_context ? static_cast<uint32_t>(PoolOf(topology))
                                  : topology.data_parallel;
}

// Plans in this process. Throws StatusError; Cancelled once `stop` is requested.
std::shared_ptr<Planned> MakePlanned(const AskedPlan& asked, const ManifestArrays& arrays,
                                     const std::stop_token& stop) {
  const Manifest manifest = asked.manifest(arrays);
  const auto start = Clock::now();
  Plan plan = Get(MakePlan(manifest, asked.options(), stop));
  const auto time = absl::FromChrono(Clock::now() - start);

  Plan without_arrays = {.excluded = plan.excluded,
                         .fingerprint = plan.fingerprint,
                         .cost_model_used = plan.cost_model_used};
  for (const PassPlan& pass : plan.passes) {
    without_arrays.passes.push_back({.name = pass.name,
                                     .length_multiple = pass.length_multiple,
                                     .metrics = pass.metrics,
                                     .decisions = pass.decisions});
  }
  v1::PlanBatchResponse head;
  FillResponse(without_arrays, time, &head);
  return std::make_shared<Planned>(std::move(plan), RanksOf(asked.options().topology),
                                   std::move(head));
}

// Runs in the caller's thread while another one plans. Returns or throws when the plan is done.
void Await(const std::future<std::shared_ptr<Planned>>& plan, const PlanningLimits& limits) {
  const Clock::time_point end =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(
                         std::min(limits.seconds.value_or(kLongest), kLongest)));
  for (;;) {
    const Clock::time_point next =
        limits.watches_signals ? std::min(end, Clock::now() + kSignalInterval) : end;
    {
      const Unlocked unlocked(limits.stop);
      if (plan.wait_until(next) == std::future_status::ready) return;
    }
    const bool is_interrupted = limits.watches_signals && PyErr_CheckSignals() != 0;
    const bool is_late = Clock::now() >= end;
    if (!is_interrupted && !is_late) continue;
    limits.stop.request_stop();
    {
      const Unlocked unlocked;
      plan.wait();
    }
    if (is_interrupted) throw nb::python_error();
    throw StatusError(absl::DeadlineExceededError(
        absl::StrCat("planning in process took longer than the ", *limits.seconds, " s left")));
  }
}

std::shared_ptr<Planned> PlanApart(const AskedPlan& asked, const ManifestArrays& arrays,
                                   const PlanningLimits& limits) {
  std::future<std::shared_ptr<Planned>> plan =
      PlanInThread([&asked, &arrays, token = limits.stop.get_token()] {
        return MakePlanned(asked, arrays, token);
      });
  Await(plan, limits);
  return plan.get();
}

std::shared_ptr<Planned> PlanWithin(const AskedPlan& asked, const ManifestArrays& arrays,
                                    const PlanningLimits& limits) {
  if (limits.seconds || limits.watches_signals) {
    try {
      return PlanApart(asked, arrays, limits);
    } catch (const std::system_error&) {
      // No thread could be started: plans in this one, without the time limit and without signals.
    }
  }
  const Unlocked unlocked(limits.stop);
  return MakePlanned(asked, arrays, limits.stop.get_token());
}

}  // namespace

AskedPlan::AskedPlan(const std::string& request_json, bool has_ranks) {
  v1::PlanBatchRequest request;
  Check(FromJson(request_json, &request));
  if (has_ranks) request.mutable_manifest()->add_ranks(0);
  parsed_ = Get(ParseRequest(request));
  // The request goes; what its manifest is beside arrays are numbers.
  SetArrays({}, parsed_.manifest);
}

Manifest AskedPlan::manifest(const ManifestArrays& arrays) const {
  Manifest manifest = parsed_.manifest;
  SetArrays(arrays, manifest);
  return manifest;
}

std::shared_ptr<Planned> PlanHere(const AskedPlan& asked, const ManifestArrays& arrays,
                                  const PlanningLimits& limits) {
  try {
    return PlanWithin(asked, arrays, limits);
  } catch (const StatusError& error) {
    if (!absl::IsCancelled(error.status) || !PythonEnds()) throw;
    // A thread that gets SystemExit ends silently.
    PyErr_SetNone(PyExc_SystemExit);
    throw nb::python_error();
  }
}

}  // namespace batchplan::python
