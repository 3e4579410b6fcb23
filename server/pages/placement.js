'use strict';

// A plan's flat arrays, placed in time.

// One pass of a plan. Micro-batch m, in the plan's order, runs on rank[m] from start[m] for
// cost[m]; the rank goes on at until[m], having waited in between.
//
// All costs are of one of the context-parallel ranks that share a sequence and, with a pipeline, of
// its busiest stage. What that computes of a mini-batch stands end to end; after the last
// micro-batch m, bubble[m] is how long it has nothing to do. When each stage runs what, pipelineRun
// says.
class Placement {
  // `plan` is a PassPlan, `costs` a CostModel, both as JSON; `pipeline` a Pipeline or null.
  constructor(plan, {ranks, padded, accumulated, costs, contextParallel = 1, pipeline = null}) {
    this.ranks = ranks;
    this.padded = padded;
    this.accumulated = accumulated;
    this.pipeline = pipeline;
    const share = pipeline?.share ?? 1;
    this.perToken = (costs?.perToken ?? 0) * share / contextParallel;
    this.perTokenSquared = (costs?.perTokenSquared ?? 0) * share / contextParallel;
    this.perMicrobatch = (costs?.perMicrobatch ?? 0) * share;
    this.perSequence = (costs?.perSequence ?? 0) * share;
    this.multiple = Math.max(1, plan.lengthMultiple ?? 1);
    this.lengths = plan.sequenceLengths ?? [];
    this.indices = plan.sequenceIndex ?? [];
    this.offsets = plan.microbatchOffsets ?? [0];
    this.widths = plan.rowWidths ?? [];
    this.size = this.widths.length;
    this.shortest = this.lengths.reduce((least, length) => Math.min(least, length), Infinity);
    this.longest = this.lengths.reduce((most, length) => Math.max(most, length), 1);

    this.rank = new Uint32Array(this.size);
    this.slot = new Uint32Array(this.size);
    this.miniBatch = new Uint32Array(this.size);
    this.start = new Float64Array(this.size);
    this.cost = new Float64Array(this.size);
    this.until = new Float64Array(this.size);
    this.bubble = new Float64Array(this.size);
    // What the ranks do, added up over them.
    this.time = {sequences: 0, padding: 0, fixed: 0, bubble: 0, waiting: 0};
    for (let m = 0; m < this.size; ++m) this.addUp(m);
    this.miniBatches = [];
    this.duration = 0;
    let first = 0;
    for (const slots of plan.microbatchesPerRank ?? []) {
      this.placeMiniBatch(first, slots);
      first += slots * ranks;
    }
    for (let m = 0; m < this.size; ++m) {
      this.time.bubble += this.bubble[m];
      this.time.waiting += this.waiting(m);
    }
  }

  ofSequence(tokens) {
    return this.perSequence + this.perToken * tokens + this.perTokenSquared * tokens * tokens;
  }

  // The tokens that are computed for sequence i of micro-batch m.
  computed(m, i) {
    return this.padded ? this.widths[m] :
                         Math.ceil(this.lengths[i] / this.multiple) * this.multiple;
  }

  // How long the rank waits for slower ranks after micro-batch m; rounding errors are no waiting.
  waiting(m) {
    const waiting = this.until[m] - this.start[m] - this.cost[m] - this.bubble[m];
    return waiting > 1e-9 * this.duration ? waiting : 0;
  }

  // When the bubble after micro-batch m begins: where the ranks meet after every slot, once all of
  // them are through the last.
  bubbleStart(m) {
    return this.accumulated ? this.start[m] + this.cost[m] : this.until[m] - this.bubble[m];
  }

  sequences(m) {
    return this.offsets[m + 1] - this.offsets[m];
  }

  trueTokens(m) {
    let tokens = 0;
    for (let i = this.offsets[m]; i < this.offsets[m + 1]; ++i) tokens += this.lengths[i];
    return tokens;
  }

  scheduledTokens(m) {
    return this.padded ? this.widths[m] * this.sequences(m) : this.widths[m];
  }

  // {sequences, padding, fixed} of micro-batch m.
  parts(m) {
    const parts = {sequences: 0, padding: 0, fixed: this.perMicrobatch};
    let tail = this.widths[m];
    for (let i = this.offsets[m]; i < this.offsets[m + 1]; ++i) {
      const computed = this.computed(m, i);
      const useful = this.ofSequence(this.lengths[i]);
      parts.sequences += useful;
      parts.padding += this.ofSequence(computed) - useful;
      tail -= computed;
    }
    if (!this.padded) parts.padding += this.perToken * Math.max(0, tail);
    return parts;
  }

  addUp(m) {
    const parts = this.parts(m);
    this.cost[m] = parts.sequences + parts.padding + parts.fixed;
    for (const key of ['sequences', 'padding', 'fixed']) this.time[key] += parts[key];
  }

  // The micro-batches from `first` on: for each rank, `slots` of them.
  placeMiniBatch(first, slots) {
    const start = this.duration;
    const miniBatch = {first, slots, start, end: start};
    const at = (rank, slot) => first + rank * slots + slot;
    for (let slot = 0; slot < slots; ++slot) {
      let end = this.duration;
      for (let rank = 0; rank < this.ranks; ++rank) {
        const m = at(rank, slot);
        this.rank[m] = rank;
        this.slot[m] = slot;
        this.miniBatch[m] = this.miniBatches.length;
        this.start[m] = this.accumulated && slot > 0 ? this.until[m - 1] : this.duration;
        this.until[m] = this.start[m] + this.cost[m];
        end = Math.max(end, this.until[m]);
      }
      // Where the ranks meet, all of them go on together.
      if (this.accumulated && slot < slots - 1) continue;
      this.duration = end;
      for (let rank = 0; rank < this.ranks; ++rank) this.until[at(rank, slot)] = end;
    }
    this.miniBatches.push(miniBatch);
    if (this.pipeline && slots > 0) this.addBubbles(miniBatch);
    miniBatch.end = this.duration;
  }

  // What the pipelines take longer than their busiest stages compute.
  addBubbles(miniBatch) {
    const {first, slots, start} = miniBatch;
    const run = new PipelineRun(this.pipeline, slots);
    let longest = 0;
    for (let rank = 0; rank < this.ranks; ++rank) {
      const last = first + (rank + 1) * slots - 1;
      if (this.accumulated || rank === 0) run.run(this.costsOnPipeline(miniBatch, rank));
      const busy = run.costs.reduce((sum, each) => sum + each, 0);
      this.bubble[last] = Math.max(0, run.makespan - busy);
      longest = Math.max(longest, run.makespan);
    }
    this.duration = start + longest;
    for (let rank = 0; rank < this.ranks; ++rank) {
      this.until[first + (rank + 1) * slots - 1] = this.duration;
    }
  }

  // What the micro-batches of a rank take, one slot after the other: where the ranks meet after
  // every slot, what the costliest of the slot takes.
  costsOnPipeline({first, slots}, rank) {
    const costs = this.cost.slice(first + rank * slots, first + (rank + 1) * slots);
    if (this.accumulated) return costs;
    for (let m = first; m < first + this.ranks * slots; ++m) {
      const slot = (m - first) % slots;
      costs[slot] = Math.max(costs[slot], this.cost[m]);
    }
    return costs;
  }

  // What the stages of `rank` do in a mini-batch that has micro-batches, as a PipelineRun.
  pipelineRun(miniBatch, rank) {
    const run = new PipelineRun(this.pipeline, miniBatch.slots);
    run.run(this.costsOnPipeline(miniBatch, rank));
    return run;
  }

  // The rank that waits least for the others.
  slowestRank() {
    const waiting = new Float64Array(this.ranks);
    for (let m = 0; m < this.size; ++m) waiting[this.rank[m]] += this.waiting(m);
    return waiting.indexOf(waiting.reduce((least, each) => Math.min(least, each), Infinity));
  }

  // The micro-batch that `rank` runs, or waits after, at `time`; -1 if there is none.
  find(rank, time) {
    const miniBatch = this.miniBatches.find(({start, end}) => time >= start && time < end);
    if (!miniBatch || rank < 0 || rank >= this.ranks) return -1;
    const begin = miniBatch.first + rank * miniBatch.slots;
    for (let m = begin; m < begin + miniBatch.slots; ++m) {
      if (time < this.until[m]) return m;
    }
    return -1;
  }

  // The sequence of micro-batch m that is computed at `time`; in the padded layout, where all are
  // at once, the one at `down` of the box's height, from 0 to 1. -1 if there is none.
  sequenceAt(m, time, down) {
    let rest = time - this.start[m] - this.perMicrobatch;
    if (rest < 0 || time > this.start[m] + this.cost[m]) return -1;
    const n = this.sequences(m);
    if (this.padded) return this.offsets[m] + Math.min(n - 1, Math.floor(down * n));
    for (let i = this.offsets[m]; i < this.offsets[m + 1]; ++i) {
      rest -= this.ofSequence(this.computed(m, i));
      if (rest < 0) return i;
    }
    return -1;
  }

  // Where the micro-batch of another slot (and of its neighbour mini-batch) or rank is; m itself at
  // the edges.
  neighbour(m, slots, ranks) {
    const {first, slots: own} = this.miniBatches[this.miniBatch[m]];
    const rank = Math.min(this.ranks - 1, Math.max(0, this.rank[m] + ranks));
    const slot = this.slot[m] + slots;
    if (slot >= 0 && slot < own) return first + rank * own + slot;
    const next = this.miniBatches[this.miniBatch[m] + Math.sign(slots)];
    if (!next || next.slots === 0) return m;
    return next.first + rank * next.slots + (slots > 0 ? 0 : next.slots - 1);
  }
}

// The pass at `index` of a PlanBatchResponse to a PlanBatchRequest.
function placePass(request, response, index) {
  const {topology, passes, pipeline, synchronization} = request;
  const {padded, forwardOnly} = passes[index];
  return new Placement(response.passes[index], {
    ranks: topology.dataParallel,
    padded: Boolean(padded),
    accumulated: synchronization === 'SYNCHRONIZATION_ACCUMULATED',
    costs: response.costModelUsed,
    contextParallel: topology.contextParallel,
    pipeline: topology.pipelineParallel > 1 ?
        new Pipeline(topology, pipeline, Boolean(forwardOnly)) :
        null,
  });
}
