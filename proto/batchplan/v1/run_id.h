// The run that a worker belongs to, where its caller does not say.

#ifndef BATCHPLAN_PROTO_V1_RUN_ID_H_
#define BATCHPLAN_PROTO_V1_RUN_ID_H_

#include <cstdint>
#include <functional>
#include <string>

namespace batchplan {

// JoinBatchRequest.run_id from Slurm's environment: "slurm-JOB.STEP.rRESTARTS", such as
// "slurm-4711.0.r2", which is new whenever the job is requeued or its step started again, and the
// same on all nodes of a step. JOB is SLURM_HET_JOB_ID, which the components of a heterogeneous job
// share, or SLURM_JOB_ID; STEP is SLURM_STEP_ID; RESTARTS is SLURM_RESTART_COUNT, which is unset
// before the first restart, 0 then.
//
// Empty, for no run, where not all workers have the same: outside a step; in one that has fewer
// tasks (SLURM_STEP_NUM_TASKS) than there are workers, such as Ray's, one to a node; and under
// torchrun (TORCHELASTIC_RUN_ID), which restarts workers within a step.
//
// `variable` returns a variable of the environment, empty where it is unset.
std::string DefaultRunId(uint32_t world_size,
                         const std::function<std::string(const char* name)>& variable);

// Reads this process's environment.
std::string DefaultRunId(uint32_t world_size);

}  // namespace batchplan

#endif  // BATCHPLAN_PROTO_V1_RUN_ID_H_
