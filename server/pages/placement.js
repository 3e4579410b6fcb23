'use strict';

// A plan's flat arrays, placed in time.

// One pass of a plan. Micro-batch m, in the plan's order, runs on rank[m] from start[m] for
// cost[m]; the rank goes on at until[m], having waited in between.
class Placement {
  // `plan` is a PassPlan, `costs` a CostModel, both as JSON.
  constructor(plan, {ranks, padded, accumulated, costs}) {
    this.ranks = ranks;
    this.padded = padded;
    this.accumulated = accumulated;
    this.perToken = costs?.perToken ?? 0;
    this.perTokenSquared = costs?.perTokenSquared ?? 0;
    this.perMicrobatch = costs?.perMicrobatch ?? 0;
    this.perSequence = costs?.perSequence ?? 0;
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
    // What the ranks do, added up over them.
    this.time = {sequences: 0, padding: 0, fixed: 0, waiting: 0};
    for (let m = 0; m < this.size; ++m) this.addUp(m);
    this.miniBatches = [];
    this.duration = 0;
    let first = 0;
    for (const slots of plan.microbatchesPerRank ?? []) {
      this.placeMiniBatch(first, slots);
      first += slots * ranks;
    }
    for (let m = 0; m < this.size; ++m) this.time.waiting += this.waiting(m);
  }

  ofSequence(tokens) {
    return this.perSequence + this.perToken * tokens + this.perTokenSquared * tokens * tokens;
  }

  // The tokens that are computed for sequence i of micro-batch m.
  computed(m, i) {
    return this.padded ? this.widths[m] :
                         Math.ceil(this.lengths[i] / this.multiple) * this.multiple;
  }

  // How long the rank waits after micro-batch m; rounding errors are no waiting.
  waiting(m) {
    const waiting = this.until[m] - this.start[m] - this.cost[m];
    return waiting > 1e-9 * this.duration ? waiting : 0;
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
    this.miniBatches.push({first, slots, start, end: this.duration});
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
  return new Placement(response.passes[index], {
    ranks: request.topology.dataParallel,
    padded: Boolean(request.passes[index].padded),
    accumulated: request.synchronization === 'SYNCHRONIZATION_ACCUMULATED',
    costs: response.costModelUsed,
  });
}
