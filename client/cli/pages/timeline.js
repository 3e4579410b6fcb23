'use strict';

// Draws a Placement on a canvas: ranks down, time to the right. What is too small to be told apart
// is drawn merged, so that the shares of the area stay true at any size.

const SHADES = 7;
// In CSS pixels.
const LEFT = 74;
const TOP = 24;
const RIGHT = 10;
const BOTTOM = 34;
const TALLEST_ROW = 34;
const TALLEST_PLOT = 640;

class Timeline {
  constructor(canvas) {
    this.canvas = canvas;
    this.context = canvas.getContext('2d');
    this.hovered = null;
  }

  show(placement) {
    this.placement = placement;
    const lengths = placement.lengths;
    this.shortest = lengths.reduce((least, length) => Math.min(least, length), Infinity);
    this.longest = lengths.reduce((most, length) => Math.max(most, length), 1);
    this.hovered = null;
    this.showAll();
  }

  showAll() {
    this.view = this.whole();
    this.draw();
  }

  // Everything: times [t0, t1), ranks [r0, r1).
  whole() {
    return {t0: 0, t1: this.placement.duration || 1, r0: 0, r1: Math.max(1, this.placement.ranks)};
  }

  showsAll() {
    const {t0, t1, r0, r1} = this.whole();
    return this.view.t0 === t0 && this.view.t1 === t1 && this.view.r0 === r0 && this.view.r1 === r1;
  }

  // Enlarges the part between two points of the canvas; a drag that is flat in one direction keeps
  // that direction as it is.
  enlarge(from, to) {
    const {view} = this;
    const [x0, x1] = [from.x, to.x].sort((a, b) => a - b);
    const [y0, y1] = [from.y, to.y].sort((a, b) => a - b);
    const next = {...view};
    if (x1 - x0 > 8) {
      next.t0 = Math.max(view.t0, this.timeAt(x0));
      next.t1 = Math.min(view.t1, this.timeAt(x1));
    }
    if (y1 - y0 > 12) {
      next.r0 = Math.max(view.r0, Math.floor(this.rankAt(y0)));
      next.r1 = Math.min(view.r1, Math.floor(this.rankAt(y1)) + 1);
    }
    if (next.t1 > next.t0 && next.r1 > next.r0) this.view = next;
    this.draw();
  }

  timeAt(x) {
    return this.view.t0 + (x - LEFT) / this.plotWidth * (this.view.t1 - this.view.t0);
  }

  rankAt(y) {
    return this.view.r0 + (y - TOP) / this.plotHeight * (this.view.r1 - this.view.r0);
  }

  x(time) {
    const {t0, t1} = this.view;
    return LEFT + (time - t0) / (t1 - t0) * this.plotWidth;
  }

  y(rank) {
    const {r0, r1} = this.view;
    return TOP + (rank - r0) / (r1 - r0) * this.plotHeight;
  }

  // The micro-batch and the sequence (-1: none) under a point; null outside.
  at({x, y}) {
    const inside = x >= LEFT && x < LEFT + this.plotWidth && y >= TOP && y < TOP + this.plotHeight;
    const rank = Math.floor(this.rankAt(y));
    const time = this.timeAt(x);
    const m = inside ? this.placement.find(rank, time) : -1;
    if (m < 0) return null;
    const box = this.box(m);
    return {m, sequence: this.sequenceAt(m, time, (y - box.y0) / (box.y1 - box.y0))};
  }

  sequenceAt(m, time, down) {
    const {placement} = this;
    let rest = time - placement.start[m] - placement.parts(m).fixed;
    if (rest < 0 || time > placement.start[m] + placement.cost[m]) return -1;
    const n = placement.sequences(m);
    if (placement.padded) return placement.offsets[m] + Math.min(n - 1, Math.floor(down * n));
    for (let i = placement.offsets[m]; i < placement.offsets[m + 1]; ++i) {
      rest -= placement.ofTokens(placement.computed(m, i));
      if (rest < 0) return i;
    }
    return -1;
  }

  // Edges of a micro-batch's box, and where its waiting ends, in CSS pixels.
  box(m) {
    const {placement} = this;
    const height = this.plotHeight / (this.view.r1 - this.view.r0);
    const gap = height >= 14 ? 3 : height >= 5 ? 1 : 0;
    const y0 = this.y(placement.rank[m]);
    return {
      x0: this.x(placement.start[m]),
      x1: this.x(placement.start[m] + placement.cost[m]),
      until: this.x(placement.until[m]),
      y0: y0,
      y1: y0 + height - gap,
    };
  }

  // Every shade below the darkest stands for half the length.
  shade(length) {
    return Math.max(0, SHADES - 1 - Math.floor(Math.log2(this.longest / length)));
  }

  draw() {
    // Nothing to draw, or hidden.
    if (!this.placement || this.canvas.clientWidth === 0) return;
    const {canvas, context, placement} = this;
    const ranks = Math.max(1, placement.ranks);
    this.plotHeight = Math.max(48, Math.min(TALLEST_ROW, TALLEST_PLOT / ranks) * ranks);
    // Where a rank has about a pixel, it has exactly one: rows stay alike.
    if (ranks > TALLEST_PLOT / 4 && ranks <= TALLEST_PLOT * 1.5) {
      this.plotHeight = ranks * Math.max(1, Math.round(TALLEST_PLOT / ranks));
    }
    canvas.style.height = `${this.plotHeight + TOP + BOTTOM}px`;
    this.plotWidth = Math.max(10, canvas.clientWidth - LEFT - RIGHT);
    this.pixels = window.devicePixelRatio || 1;
    canvas.width = Math.round(canvas.clientWidth * this.pixels);
    canvas.height = Math.round(canvas.clientHeight * this.pixels);
    this.readColors();
    context.setTransform(this.pixels, 0, 0, this.pixels, 0, 0);
    context.clearRect(0, 0, canvas.clientWidth, canvas.clientHeight);
    this.drawTimeAxis();
    this.drawRankLabels();
    context.save();
    context.beginPath();
    context.rect(LEFT, TOP, this.plotWidth, this.plotHeight);
    context.clip();
    // Boxes stand on whole device pixels: without seams between neighbours.
    context.setTransform(1, 0, 0, 1, 0, 0);
    this.drawWaiting();
    for (const m of this.visible()) this.drawMicrobatch(m);
    context.restore();
    this.drawMiniBatches();
    this.picture = document.createElement('canvas');
    this.picture.width = canvas.width;
    this.picture.height = canvas.height;
    this.picture.getContext('2d').drawImage(canvas, 0, 0);
    this.mark(this.hovered);
  }

  // Draws a frame around the micro-batch of `hovered`, or none, over the picture as it stands.
  mark(hovered) {
    const {context} = this;
    this.hovered = hovered;
    if (!this.picture) return;
    this.restore();
    if (!hovered) return;
    const box = this.box(hovered.m);
    const x0 = Math.max(LEFT, box.x0);
    const x1 = Math.min(LEFT + this.plotWidth, Math.max(box.x1, box.x0 + 1.5));
    context.strokeStyle = this.colors.ink;
    context.lineWidth = 1.5;
    if (x1 >= x0) context.strokeRect(x0, box.y0 - 0.5, x1 - x0, box.y1 - box.y0 + 1);
  }

  // Shades the part that a drag would enlarge.
  select(from, to) {
    this.restore();
    this.context.globalAlpha = 0.15;
    this.fill(this.colors.ink, Math.min(from.x, to.x), Math.min(from.y, to.y),
              Math.max(from.x, to.x), Math.max(from.y, to.y));
    this.context.globalAlpha = 1;
  }

  restore() {
    const {context, canvas} = this;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, canvas.width, canvas.height);
    context.drawImage(this.picture, 0, 0);
    context.setTransform(this.pixels, 0, 0, this.pixels, 0, 0);
  }

  readColors() {
    this.colors = {};
    for (const name of ['surface', 'ink', 'quiet', 'line', 'padding', 'fixed', 'waiting', 'seam']) {
      this.colors[name] = styleColor(`--${name}`);
    }
    this.colors.sequences =
        Array.from({length: SHADES}, (unused, shade) => styleColor(`--sequence-${shade}`));
    this.font = getComputedStyle(document.body).fontFamily;
  }

  * visible() {
    const {placement, view} = this;
    for (const miniBatch of placement.miniBatches) {
      if (miniBatch.end < view.t0 || miniBatch.start > view.t1) continue;
      const {first, slots} = miniBatch;
      for (let m = first + view.r0 * slots; m < first + view.r1 * slots; ++m) {
        if (placement.until[m] >= view.t0 && placement.start[m] <= view.t1) yield m;
      }
    }
  }

  // The box in whole device pixels.
  pixelBox(m) {
    const box = this.box(m);
    for (const key of Object.keys(box)) box[key] = Math.round(box[key] * this.pixels);
    box.y1 = Math.max(box.y1, box.y0 + 1);
    return box;
  }

  drawWaiting() {
    const {context, pixels} = this;
    const size = Math.round(5 * pixels);
    const tile = document.createElement('canvas');
    tile.width = tile.height = size;
    const pen = tile.getContext('2d');
    pen.strokeStyle = this.colors.waiting;
    pen.lineWidth = pixels;
    for (const shift of [-size, 0, size]) {
      pen.moveTo(shift - 1, size + 1);
      pen.lineTo(shift + size + 1, -1);
    }
    pen.stroke();
    context.fillStyle = context.createPattern(tile, 'repeat');
    context.beginPath();
    for (const m of this.visible()) {
      const {x1, until, y0, y1} = this.pixelBox(m);
      if (until > x1) context.rect(x1, y0, until - x1, y1 - y0);
    }
    context.fill();
  }

  drawMicrobatch(m) {
    const {placement} = this;
    const box = this.pixelBox(m);
    const {x0, x1, y0, y1} = box;
    if (x1 <= x0) return;
    const parts = placement.parts(m);
    const scale = (x1 - x0) / placement.cost[m];
    const n = placement.sequences(m);
    const inner = x0 + Math.round(parts.fixed * scale);
    this.fill(this.colors.fixed, x0, y0, inner, y1);
    if (placement.padded && y1 - y0 >= 6 * this.pixels) {
      this.drawStacked(m, inner, box);
    } else if (!placement.padded) {
      this.drawInRow(m, inner, scale, box);
    } else {
      const length = placement.trueTokens(m) / n;
      const middle = x1 - Math.round(parts.padding * scale);
      this.fill(this.colors.sequences[this.shade(length)], inner, y0, middle, y1);
      this.fill(this.colors.padding, middle, y0, x1, y1);
    }
    const gap = Math.round((x1 - x0 >= 12 * this.pixels ? 2 : 1) * this.pixels);
    if (x1 - x0 >= 4 * this.pixels) this.fill(this.colors.surface, x1 - gap, y0, x1, y1);
  }

  fill(color, x0, y0, x1, y1) {
    if (x1 <= x0 || y1 <= y0) return;
    this.context.fillStyle = color;
    this.context.fillRect(x0, y0, x1 - x0, y1 - y0);
  }

  // A packed row: sequences end to end, each followed by its alignment, the row's tail at the end.
  // Neighbours too narrow to be told apart share a block.
  drawInRow(m, inner, scale, {x0, x1, y0, y1}) {
    const {placement, pixels} = this;
    const end = placement.offsets[m + 1];
    let at = x0 + placement.perMicrobatch * scale;
    let left = inner;
    let padded = true;
    let block = {n: 0, tokens: 0, padding: 0};
    for (let i = placement.offsets[m]; i < end; ++i) {
      const length = placement.lengths[i];
      block.n += 1;
      block.tokens += length;
      const computed = placement.ofTokens(placement.computed(m, i));
      block.padding += (computed - placement.ofTokens(length)) * scale;
      at += computed * scale;
      const right = Math.min(x1, Math.round(at));
      if (right - left < 3 * pixels && i < end - 1) continue;
      const middle = Math.min(right, Math.round(at - block.padding));
      const shade = this.shade(block.tokens / block.n);
      this.fill(this.colors.sequences[shade], left, y0, middle, y1);
      this.fill(this.colors.padding, middle, y0, right, y1);
      if (block.n === 1) this.label(count(length), shade, left, middle, y0, y1);
      // Padding parts neighbours well enough.
      if (!padded && block.n === 1 && right - left >= 4 * pixels) {
        this.fill(this.colors.seam, left, y0, left + Math.round(pixels), y1);
      }
      padded = right > middle;
      left = right;
      block = {n: 0, tokens: 0, padding: 0};
    }
    this.fill(this.colors.padding, left, y0, x1, y1);
  }

  // A padded micro-batch: its sequences below each other, each padded to the width; some of them
  // where there are more than pixels.
  drawStacked(m, inner, {x1, y0, y1}) {
    const {placement, pixels} = this;
    const n = placement.sequences(m);
    const whole = placement.ofTokens(placement.widths[m]);
    const bars = Math.min(n, y1 - y0);
    for (let k = 0; k < bars; ++k) {
      const length = placement.lengths[placement.offsets[m] + Math.floor(k * n / bars)];
      const top = y0 + Math.round((y1 - y0) * k / bars);
      const bottom = y0 + Math.round((y1 - y0) * (k + 1) / bars);
      const share = whole > 0 ? placement.ofTokens(length) / whole : 1;
      const middle = inner + Math.round((x1 - inner) * share);
      this.fill(this.colors.sequences[this.shade(length)], inner, top, middle, bottom);
      this.fill(this.colors.padding, middle, top, x1, bottom);
      this.label(count(length), this.shade(length), inner, middle, top, bottom);
      if (k > 0 && (y1 - y0) / bars >= 4 * pixels) {
        this.fill(this.colors.seam, inner, top, x1, top + Math.round(pixels));
      }
    }
  }

  // A length inside its block, where there is room for it.
  label(text, shade, x0, x1, y0, y1) {
    const {context, pixels} = this;
    if (y1 - y0 < 17 * pixels || x1 - x0 < (9 + 7 * text.length) * pixels) return;
    const light = shade >= 3;
    const dark = matchMedia('(prefers-color-scheme: dark)').matches;
    context.fillStyle = dark ? (shade >= 4 ? '#0b1a2a' : '#eaf3fb') : light ? '#ffffff' : '#0f2a45';
    context.font = `${11 * pixels}px ${this.font}`;
    context.textAlign = 'center';
    context.textBaseline = 'middle';
    context.fillText(text, (x0 + x1) / 2, (y0 + y1) / 2 + pixels / 2);
  }

  text(string, x, y, align, color = this.colors.quiet) {
    const {context} = this;
    context.font = `11.5px ${this.font}`;
    context.textAlign = align;
    context.textBaseline = 'middle';
    context.fillStyle = color;
    context.fillText(string, x, y);
  }

  drawRankLabels() {
    const {view} = this;
    const height = this.plotHeight / (view.r1 - view.r0);
    let step = 1;
    while (step * height < 15) step *= 2;
    for (let rank = Math.ceil(view.r0 / step) * step; rank < view.r1; rank += step) {
      const thick = height >= 14 ? height - 3 : height;
      const middle = this.y(rank) + (step === 1 ? thick / 2 : 6);
      this.text(rank === view.r0 ? `rank ${count(rank)}` : count(rank), LEFT - 8, middle, 'right');
    }
  }

  drawTimeAxis() {
    const {context, view} = this;
    const bottom = TOP + this.plotHeight;
    const step = niceStep((view.t1 - view.t0) / Math.max(2, Math.floor(this.plotWidth / 110)));
    context.strokeStyle = this.colors.quiet;
    context.lineWidth = 1;
    for (let k = Math.ceil(view.t0 / step); k * step <= view.t1; ++k) {
      const x = Math.round(this.x(k * step)) + 0.5;
      context.beginPath();
      context.moveTo(x, bottom);
      context.lineTo(x, bottom + 5);
      context.stroke();
      const nearEnd = x > LEFT + this.plotWidth - 30;
      this.text(cost(k * step), nearEnd ? LEFT + this.plotWidth : x, bottom + 13,
                nearEnd ? 'right' : 'center');
    }
    this.text('time, in units of predicted cost', LEFT, bottom + 28, 'left');
  }

  // Their numbers in a band above the picture, as many as there is room for, and where they begin.
  drawMiniBatches() {
    const {context, placement, view} = this;
    const shown =
        [...placement.miniBatches.entries()].filter(
            ([, {start, end}]) => end > start && end > view.t0 && start < view.t1);
    if (placement.miniBatches.length < 2 || shown.length === 0) return;
    this.text('mini-batch', LEFT - 8, TOP - 12, 'right');
    const room = this.plotWidth / shown.length;
    const step = niceStep(Math.max(1, 40 / room));
    const fine = room < 40;
    context.strokeStyle = fine ? this.colors.quiet : this.colors.ink;
    context.lineWidth = fine ? 1 : 1.5;
    for (const [k, {start}] of shown) {
      const x = this.x(start);
      if (k % step === 0) this.text(count(k), Math.max(LEFT, x) + 5, TOP - 12, 'left');
      if (x < LEFT || room < 3) continue;
      context.beginPath();
      context.moveTo(x, TOP - (k % step === 0 ? 18 : 5));
      context.lineTo(x, TOP + this.plotHeight);
      context.stroke();
    }
  }
}

// 1, 2 or 5 times a power of ten, at least `least`.
function niceStep(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  return power * [1, 2, 5, 10].find((factor) => factor * power >= least);
}
