'use strict';

// Draws what the stages of one rank's pipeline do, a lane for each: forwards, backwards, and between
// them, hatched, the bubbles.

const LANES = {...FULL, tallestPlot: 400};
// Works that are narrower, in device pixels, are painted together.
const NARROW = 2;

class Lanes extends Timeline {
  constructor(canvas) {
    super(canvas, LANES);
  }

  rowName() {
    return 'stage';
  }

  rows() {
    return this.placement.pipeline.stages;
  }

  // Of a placement on pipelines.
  show(placement, rank) {
    this.setRank(placement, rank);
    super.show(placement);
  }

  // Another rank, at the times and stages that are shown.
  choose(rank) {
    this.setRank(this.placement, rank);
    this.draw();
  }

  setRank(placement, rank) {
    this.rank = rank;
    this.hovered = null;
    // One a mini-batch, null of those without micro-batches.
    this.runs = placement.miniBatches.map(
        (miniBatch) => miniBatch.slots > 0 ? placement.pipelineRun(miniBatch, rank) : null);
  }

  // The rank's micro-batch in that slot of a mini-batch.
  microbatch(miniBatch, slot) {
    const {first, slots} = this.placement.miniBatches[miniBatch];
    return first + this.rank * slots + slot;
  }

  // Number n of what a stage runs in a mini-batch, and when.
  found(miniBatch, stage, n) {
    const run = this.runs[miniBatch];
    const work = run.work(stage, n);
    const m = this.microbatch(miniBatch, work.microbatch);
    const end = this.placement.miniBatches[miniBatch].start + run.end(work);
    // Where the ranks meet after every slot, the costliest micro-batch decides.
    const part = run.costs[work.microbatch] > 0 ?
        this.placement.cost[m] / run.costs[work.microbatch] : 0;
    const duration = run.duration(work);
    return {
      m, sequence: -1, miniBatch, stage, n, end, start: end - duration, takes: duration * part,
      backward: work.backward, chunk: Math.floor(work.virtualStage / this.rows()),
    };
  }

  // The work under a point; null in a bubble and outside.
  at(point) {
    if (!this.inPlot(point)) return null;
    const time = this.timeAt(point.x);
    const miniBatch =
        this.placement.miniBatches.findIndex(({start, end}) => time >= start && time < end);
    return miniBatch < 0 ? null :
                           this.runningAt(miniBatch, Math.floor(this.rowAt(point.y)), time);
  }

  runningAt(miniBatch, stage, time) {
    const run = this.runs[miniBatch];
    const n = run.firstAfter(stage, time - this.placement.miniBatches[miniBatch].start);
    if (n === run.works) return null;
    const found = this.found(miniBatch, stage, n);
    return found.start <= time ? found : null;
  }

  next(hovered, right, down) {
    if (hovered?.stage === undefined) return this.found(this.runs.findIndex(Boolean), 0, 0);
    const {miniBatch, stage, n, start} = hovered;
    const run = this.runs[miniBatch];
    if (down !== 0) {
      const other = Math.min(this.rows() - 1, Math.max(0, stage + down));
      const begin = this.placement.miniBatches[miniBatch].start;
      return this.found(miniBatch, other,
                        Math.min(run.works - 1, run.firstAfter(other, start - begin)));
    }
    if (n + right >= 0 && n + right < run.works) return this.found(miniBatch, stage, n + right);
    const neighbour = this.runs[miniBatch + right];
    if (!neighbour) return hovered;
    return this.found(miniBatch + right, stage, right > 0 ? 0 : neighbour.works - 1);
  }

  boxOf({stage, start, end}) {
    return {x0: this.x(start), x1: this.x(end), ...this.rowEdges(stage)};
  }

  // All works of a micro-batch, first the one that is hovered.
  frames(hovered) {
    const {placement} = this;
    const boxes = hovered.stage === undefined ? [] : [this.boxOf(hovered)];
    if (placement.rank[hovered.m] !== this.rank) return boxes;
    const {start} = placement.miniBatches[placement.miniBatch[hovered.m]];
    const run = this.runs[placement.miniBatch[hovered.m]];
    const {virtualStages, forwardOnly, stages} = placement.pipeline;
    for (let virtualStage = 0; virtualStage < virtualStages; ++virtualStage) {
      const stage = virtualStage % stages;
      if (stage < this.view.r0 || stage >= this.view.r1) continue;
      for (const backward of forwardOnly ? [false] : [false, true]) {
        const work = {backward, microbatch: placement.slot[hovered.m], virtualStage};
        const end = start + run.end(work);
        boxes.push(this.boxOf({stage, start: end - run.duration(work), end}));
      }
    }
    return boxes;
  }

  paint(palette) {
    const {placement: {miniBatches}, view, context} = this;
    const pen = new LanePen(context, palette, this.pixels, this.placement.pipeline.chunks);
    const at = (time) => this.x(time) * this.pixels;
    const shown = [...miniBatches.keys()].filter(
        (k) => this.runs[k] && miniBatches[k].end >= view.t0 && miniBatches[k].start <= view.t1);
    for (let stage = view.r0; stage < view.r1; ++stage) {
      pen.begin(this.inPixels(this.rowEdges(stage)));
      for (const k of shown) {
        const {start, end} = miniBatches[k];
        const done = Math.min(end, start + this.runs[k].makespan);
        pen.idle(at(Math.max(start, view.t0)), at(done), at(Math.min(end, view.t1)));
      }
      pen.endOfIdle();
      for (const k of shown) {
        const run = this.runs[k];
        for (let n = run.firstAfter(stage, view.t0 - miniBatches[k].start); n < run.works; ++n) {
          const work = this.found(k, stage, n);
          if (work.start > view.t1) break;
          pen.work(work, this.placement.slot[work.m], at(work.start), at(work.end));
        }
      }
      pen.end();
    }
  }
}

// Paints one lane after the other. Coordinates are device pixels, not rounded.
class LanePen {
  constructor(context, palette, pixels, chunks) {
    Object.assign(this, {context, palette, pixels});
    const part = (chunk) => chunks > 1 ? chunk / (chunks - 1) : 0.5;
    const shades = ([first, last]) =>
        Array.from({length: chunks}, (unused, chunk) => mixed(first, last, part(chunk)));
    this.forward = shades(palette.forward);
    this.backward = shades(palette.backward);
    this.hatches = {
      bubble: hatch(context, palette.bubble, pixels, true),
      waiting: hatch(context, palette.waiting, pixels),
    };
    // How much of each column of pixels narrow works take.
    const columns = context.canvas.width;
    this.narrow = {
      forward: new Float32Array(columns), backward: new Float32Array(columns),
      waiting: new Float32Array(columns),
    };
  }

  begin({y0, y1}) {
    Object.assign(this, {y0, y1, any: false, bubbles: new Path2D(), waiting: new Path2D()});
    for (const shares of Object.values(this.narrow)) shares.fill(0);
  }

  // Bubbles between x0 and x1, but for works; from there to x2 the rank waits for others.
  idle(x0, x1, x2) {
    this.addTo(this.bubbles, x0, x1);
    this.addTo(this.waiting, x1, x2);
  }

  endOfIdle() {
    this.fill(this.hatches.bubble, this.bubbles);
    this.fill(this.hatches.waiting, this.waiting);
    this.waiting = new Path2D();
  }

  // From x0 to x1, where the rank itself takes a part of it.
  work({takes, start, end, backward, chunk}, slot, x0, x1) {
    const own = end > start ? x0 + (x1 - x0) * Math.min(1, takes / (end - start)) : x0;
    if (x1 - x0 < NARROW * this.pixels) {
      const column = Math.floor((x0 + x1) / 2);
      if (column < 0 || column >= this.narrow.waiting.length) return;
      this.narrow[backward ? 'backward' : 'forward'][column] += own - x0;
      this.narrow.waiting[column] += x1 - own;
      this.any = true;
      return;
    }
    const {context, palette, pixels, y0, y1} = this;
    const [left, middle] = [Math.round(x0), Math.round(own)];
    context.fillStyle = (backward ? this.backward : this.forward)[chunk];
    context.fillRect(left, y0, middle - left, y1 - y0);
    this.addTo(this.waiting, own, x1);
    if (x1 - x0 >= 4 * pixels) {
      context.fillStyle = palette.seam;
      context.fillRect(Math.round(x1) - Math.round(pixels), y0, Math.round(pixels), y1 - y0);
    }
    this.label(count(slot), left, middle);
  }

  // What was too narrow, and the waiting in it.
  end() {
    if (this.any) this.endOfNarrow();
    this.fill(this.palette.surface, this.waiting);
    this.fill(this.hatches.waiting, this.waiting);
  }

  // In each column as high as the share of it that they take.
  endOfNarrow() {
    const {forward, backward, waiting} = this.narrow;
    const middle = Math.floor(this.forward.length / 2);
    const [forwards, backwards] = [new Path2D(), new Path2D()];
    for (let x = 0; x < forward.length; ++x) {
      const all = forward[x] + backward[x] + waiting[x];
      if (all === 0) continue;
      const height = (this.y1 - this.y0) / Math.max(1, all);
      const y1 = this.y0 + Math.round(height * forward[x]);
      const y2 = this.y0 + Math.round(height * (forward[x] + backward[x]));
      const y3 = this.y0 + Math.round(height * all);
      forwards.rect(x, this.y0, 1, y1 - this.y0);
      backwards.rect(x, y1, 1, y2 - y1);
      if (waiting[x] > 0) this.waiting.rect(x, y2, 1, y3 - y2);
    }
    this.fill(this.forward[middle], forwards);
    this.fill(this.backward[middle], backwards);
  }

  addTo(path, x0, x1) {
    const [left, right] = [Math.round(x0), Math.round(x1)];
    if (right > left) path.rect(left, this.y0, right - left, this.y1 - this.y0);
  }

  fill(paint, path) {
    this.context.fillStyle = paint;
    this.context.fill(path);
  }

  // The slot of the micro-batch, where there is room for it.
  label(text, x0, x1) {
    const {context, palette, pixels, y0, y1} = this;
    if (y1 - y0 < 14 * pixels || x1 - x0 < (5 + 7 * text.length) * pixels) return;
    context.fillStyle = palette.labels[0];
    context.font = `${11 * pixels}px ${palette.font}`;
    context.textAlign = 'center';
    context.textBaseline = 'middle';
    context.fillText(text, (x0 + x1) / 2, (y0 + y1) / 2 + pixels / 2);
  }
}

// The colour that is so far, from 0 to 1, between two that are written "#rrggbb".
function mixed(first, last, part) {
  const channel = (k) => {
    const [a, b] = [first, last].map((color) => parseInt(color.slice(k, k + 2), 16));
    return Math.round(a + (b - a) * part);
  };
  return `rgb(${channel(1)} ${channel(3)} ${channel(5)})`;
}
