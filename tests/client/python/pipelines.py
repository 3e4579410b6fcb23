"""How long a pipeline runs, computed here apart from the planner."""

from lengths import verl_cost


def makespan(costs, stages, virtual=1, group=None):
    """Of micro-batches that cost so much, in this order: by 1F1B or, with virtual stages, interleaved in groups.
    Stages have equal parts of the model, and a backward takes twice its forward."""
    group = group or stages
    count = len(costs) * virtual
    table = [(one, 0) for one in range(len(costs))]
    if virtual > 1:
        assert len(costs) % group == 0
        table = [(one, chunk) for first in range(0, len(costs), group) for chunk in range(virtual)
                 for one in range(first, first + group)]
    work = []
    for stage in range(stages):
        behind = stages - 1 - stage
        first = min(behind if virtual == 1 else 2 * behind + (virtual - 1) * group, count)
        forwards = [("forward", one, chunk) for one, chunk in table]
        backwards = [("backward", one, virtual - 1 - chunk) for one, chunk in table]
        in_turns = [step for pair in zip(forwards[first:], backwards) for step in pair]
        work.append(forwards[:first] + in_turns + backwards[count - first:])
    ended, free = {}, [0.0] * stages
    while any(work):
        before = len(ended)
        for stage, left in enumerate(work):
            while left and (awaited := _awaited(*left[0], stage, stages, virtual)) in ended | {None: 0}:
                kind, one, chunk = left.pop(0)
                share = costs[one] / (stages * virtual) / 3 * (1 if kind == "forward" else 2)
                free[stage] = max(free[stage], ended.get(awaited, 0.0)) + share
                ended[kind, one, chunk, stage] = free[stage]
        assert len(ended) > before, "stages wait for each other"
    return max(free)


def _awaited(kind, one, chunk, stage, stages, virtual):
    """What must end before: in the stage before or, of a backward, behind this one. None: nothing."""
    if kind == "forward":
        before = (chunk, stage - 1) if stage else (chunk - 1, stages - 1)
        return None if before[0] < 0 else (kind, one, *before)
    behind = (chunk, stage + 1) if stage < stages - 1 else (chunk + 1, 0)
    return ("forward", one, chunk, stage) if behind[0] == virtual else (kind, one, *behind)


def step_time(lengths, slots, stages, virtual=1, group=None):
    """Of ranks that wait for each other at the end: [slots][ranks] of positions, a micro-batch with as much beside
    as 1,024 tokens cost."""
    return max(
        makespan([verl_cost(lengths, part) + 1024 * 24576 for part in own], stages, virtual, group)
        for own in zip(*slots))
