'use strict';

// What the stages of a pipeline run, and when.
//
//   stage: of a rank, one part of the model, by its number in the model's order.
//   chunk: of a stage's part of the model, where the schedule is interleaved: chunk c of stage s is
//     the virtual stage c * stages + s.
//   work: a forward or a backward of a micro-batch through a virtual stage.
//
// The schedules, 1F1B, interleaved and forwards alone, are those of
// server/planner/time/schedule.h.

// Of a job's pipeline, as one pass runs it. Costs are those of the stage with most work, the
// busiest one: `share` is the part of the model's time that it takes.
class Pipeline {
  // `options` is a Pipeline as JSON, with a share for every virtual stage.
  constructor({pipelineParallel, virtualPipeline}, options, forwardOnly) {
    this.stages = pipelineParallel;
    this.chunks = virtualPipeline;
    this.interleaved = virtualPipeline > 1;
    this.groupSize = options.groupSize;
    this.forwardOnly = forwardOnly;
    this.backwardRatio = options.backwardRatio;
    this.transfer = options.transfer;
    this.virtualStages = this.stages * this.chunks;
    const shares = options.stageShares;
    const ofStage = new Float64Array(this.stages);
    for (const [q, share] of shares.entries()) ofStage[q % this.stages] += share;
    const busiest = Math.max(...ofStage);
    this.share = busiest / shares.reduce((sum, share) => sum + share, 0);
    this.equal = Math.min(...ofStage) === busiest;
    // What the works of each virtual stage take of a micro-batch's cost.
    const both = forwardOnly ? 1 : 1 + options.backwardRatio;
    this.forward = Float64Array.from(shares, (share) => share / busiest / both);
    this.backward = this.forward.map((share) => share * options.backwardRatio);
  }

  // The forwards of a stage before its first backward, of so many micro-batches.
  warmup(stage, microbatches) {
    const all = microbatches * this.chunks;
    if (this.forwardOnly) return all;
    const behind = this.stages - 1 - stage;
    return Math.min(
        all, this.interleaved ? 2 * behind + (this.chunks - 1) * this.groupSize : behind);
  }
}

// So many micro-batches on a pipeline, from the first work's begin, at 0, to the last one's end.
// Interleaved they are a multiple of the group size.
class PipelineRun {
  constructor(pipeline, microbatches) {
    this.pipeline = pipeline;
    this.microbatches = microbatches;
    // Forward k of a stage is of microbatch[k] through chunk[k]; its backward k is of the same
    // micro-batch through the chunk that is as far from the last as that is from the first.
    const all = microbatches * pipeline.chunks;
    this.microbatch = new Uint32Array(all);
    this.chunk = new Uint32Array(all);
    const group = pipeline.interleaved ? pipeline.groupSize : microbatches;
    for (let k = 0; k < all; ++k) {
      const inGroup = k % (group * pipeline.chunks);
      this.microbatch[k] = (k - inGroup) / pipeline.chunks + inGroup % group;
      this.chunk[k] = Math.floor(inGroup / group);
    }
    // How many a stage runs.
    this.works = pipeline.forwardOnly ? all : 2 * all;
    this.warmups = Uint32Array.from(
        {length: pipeline.stages}, (unused, stage) => pipeline.warmup(stage, microbatches));
    this.forwardEnd = new Float64Array(pipeline.virtualStages * microbatches);
    this.backwardEnd = new Float64Array(pipeline.forwardOnly ? 0 : this.forwardEnd.length);
    this.makespan = 0;
  }

  // Whether number n of what a stage runs is a backward, of which micro-batch and virtual stage.
  work(stage, n) {
    const {pipeline, microbatch, chunk} = this;
    const turn = n - this.warmups[stage];
    const turns = 2 * (microbatch.length - this.warmups[stage]);
    const backward = turn >= turns || (turn > 0 && turn % 2 === 1);
    let k = n;
    if (turn >= turns) {
      k = n - microbatch.length;
    } else if (turn > 0) {
      k = backward ? (turn - 1) / 2 : n - turn / 2;
    }
    const through = backward ? pipeline.chunks - 1 - chunk[k] : chunk[k];
    return {backward, microbatch: microbatch[k], virtualStage: through * pipeline.stages + stage};
  }

  duration({backward, microbatch, virtualStage}) {
    const {pipeline: {forward, backward: back}, costs} = this;
    return costs[microbatch] * (backward ? back : forward)[virtualStage];
  }

  end({backward, microbatch, virtualStage}) {
    const ends = backward ? this.backwardEnd : this.forwardEnd;
    return ends[virtualStage * this.microbatches + microbatch];
  }

  // Lets them run, in their order: `costs` holds one each. Takes O(microbatches * virtual stages).
  run(costs) {
    const {pipeline: {stages}} = this;
    this.costs = costs;
    // Number of the next work of each stage, and when the stage is done with those before it. What
    // has no end yet has not been run.
    this.next = new Uint32Array(stages);
    this.free = new Float64Array(stages);
    this.forwardEnd.fill(-1);
    this.backwardEnd.fill(-1);
    // Down the pipeline and up again, as long as anything moves.
    for (let moved = true; moved;) {
      moved = false;
      for (let stage = 0; stage < stages; ++stage) moved = this.advance(stage) || moved;
      for (let stage = stages - 1; stage >= 0; --stage) moved = this.advance(stage) || moved;
    }
    this.makespan = Math.max(0, ...this.free);
    return this.makespan;
  }

  // Runs what a stage can run; whether that is anything.
  advance(stage) {
    const {pipeline: {virtualStages, transfer}, microbatches, next, free} = this;
    const before = next[stage];
    for (; next[stage] < this.works; ++next[stage]) {
      const work = this.work(stage, next[stage]);
      const ends = work.backward ? this.backwardEnd : this.forwardEnd;
      const sender = work.virtualStage + (work.backward ? 1 : -1);
      if (sender >= 0 && sender < virtualStages) {
        const sent = ends[sender * microbatches + work.microbatch];
        if (sent < 0) break;
        free[stage] = Math.max(free[stage], sent + transfer);
      }
      free[stage] += this.duration(work);
      ends[work.virtualStage * microbatches + work.microbatch] = free[stage];
    }
    return next[stage] > before;
  }

  // The number of the first work of a stage that ends after `time`; `works` if there is none.
  firstAfter(stage, time) {
    let [low, high] = [0, this.works];
    while (low < high) {
      const middle = Math.floor((low + high) / 2);
      if (this.end(this.work(stage, middle)) > time) high = middle;
      else low = middle + 1;
    }
    return low;
  }
}
