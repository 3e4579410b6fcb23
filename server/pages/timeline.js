'use strict';

// Draws a Placement on a canvas: ranks down, time to the right. Knows what part of it is shown, and
// what is where.

// What surrounds the picture and how tall it grows, in CSS pixels.
const FULL =
    {left: 74, top: 24, right: 10, bottom: 34, tallestRow: 34, tallestPlot: 640, axes: true};
const SMALL = {left: 0, top: 0, right: 0, bottom: 0, tallestRow: 9, tallestPlot: 128, axes: false};

class Timeline {
  constructor(canvas, style = FULL) {
    this.canvas = canvas;
    this.style = style;
    this.context = canvas.getContext('2d');
    this.hovered = null;
    // The row whose label stands out, if any.
    this.chosen = null;
  }

  // What a row is.
  rowName() {
    return 'rank';
  }

  rows() {
    return Math.max(1, this.placement.ranks);
  }

  // `end` is where the time axis ends, for pictures to be compared; the plan's own end if left out.
  show(placement, end = placement.duration) {
    this.placement = placement;
    this.end = end;
    this.hovered = null;
    this.showAll();
  }

  showAll() {
    this.view = this.whole();
    this.draw();
  }

  // Everything: times [t0, t1), rows [r0, r1).
  whole() {
    return {t0: 0, t1: this.end || 1, r0: 0, r1: this.rows()};
  }

  // Shows the times that another timeline shows.
  follow({view: {t0, t1}}) {
    Object.assign(this.view, {t0, t1});
    this.draw();
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
      next.r0 = Math.max(view.r0, Math.floor(this.rowAt(y0)));
      next.r1 = Math.min(view.r1, Math.floor(this.rowAt(y1)) + 1);
    }
    if (next.t1 > next.t0 && next.r1 > next.r0) this.view = next;
    this.draw();
  }

  timeAt(x) {
    return this.view.t0 + (x - this.style.left) / this.plotWidth * (this.view.t1 - this.view.t0);
  }

  rowAt(y) {
    return this.view.r0 + (y - this.style.top) / this.plotHeight * (this.view.r1 - this.view.r0);
  }

  x(time) {
    const {t0, t1} = this.view;
    return this.style.left + (time - t0) / (t1 - t0) * this.plotWidth;
  }

  y(row) {
    return this.style.top + (row - this.view.r0) * this.rowHeight();
  }

  rowHeight() {
    return this.plotHeight / (this.view.r1 - this.view.r0);
  }

  inPlot({x, y}) {
    const {left, top} = this.style;
    return x >= left && x < left + this.plotWidth && y >= top && y < top + this.plotHeight;
  }

  // The micro-batch and the sequence (-1: none) under a point; null outside.
  at({x, y}) {
    const time = this.timeAt(x);
    const m = this.inPlot({x, y}) ? this.placement.find(Math.floor(this.rowAt(y)), time) : -1;
    if (m < 0) return null;
    const box = this.box(m);
    return {m, sequence: this.placement.sequenceAt(m, time, (y - box.y0) / (box.y1 - box.y0))};
  }

  // Where the keyboard goes from `hovered`, or from nowhere: so many steps to the right and down.
  next(hovered, right, down) {
    return {m: hovered ? this.placement.neighbour(hovered.m, right, down) : 0, sequence: -1};
  }

  // Edges of a row, in CSS pixels.
  rowEdges(row) {
    const height = this.rowHeight();
    const gap = height >= 14 ? 3 : height >= 5 ? 1 : 0;
    return {y0: this.y(row), y1: this.y(row) + height - gap};
  }

  // Edges of a micro-batch's box, where its waiting ends, and of the bubble in that, in CSS pixels.
  box(m) {
    const {placement} = this;
    return {
      x0: this.x(placement.start[m]),
      x1: this.x(placement.start[m] + placement.cost[m]),
      until: this.x(placement.until[m]),
      bubble0: this.x(placement.bubbleStart(m)),
      bubble1: this.x(placement.bubbleStart(m) + placement.bubble[m]),
      ...this.rowEdges(placement.rank[m]),
    };
  }

  // The frames around what the pointer or the keyboard is at.
  frames({m}) {
    return [{...this.box(m), ...this.groupEdges(m)}];
  }

  // A box in whole device pixels: without seams between neighbours.
  inPixels(box) {
    for (const key of Object.keys(box)) box[key] = Math.round(box[key] * this.pixels);
    box.y1 = Math.max(box.y1, box.y0 + 1);
    return box;
  }

  fittingHeight() {
    const {tallestRow, tallestPlot} = this.style;
    const rows = this.rows();
    // Where a row has about a pixel, it has one, or two, or three: rows stay alike.
    const perRow = tallestPlot / rows;
    if (perRow > 0.66 && perRow < 4) return rows * Math.max(1, Math.round(perRow));
    return Math.max(48, Math.min(tallestRow, perRow) * rows);
  }

  draw() {
    // Nothing to draw, or hidden.
    if (!this.placement || this.canvas.clientWidth === 0) return;
    const {canvas, context} = this;
    const {left, top, right, bottom, axes} = this.style;
    this.plotHeight = this.fittingHeight();
    canvas.style.height = `${this.plotHeight + top + bottom}px`;
    this.plotWidth = Math.max(10, canvas.clientWidth - left - right);
    this.pixels = window.devicePixelRatio || 1;
    canvas.width = Math.round(canvas.clientWidth * this.pixels);
    canvas.height = Math.round(canvas.clientHeight * this.pixels);

    const palette = readPalette();
    context.save();
    context.beginPath();
    context.rect(Math.round(left * this.pixels), Math.round(top * this.pixels),
                 Math.round(this.plotWidth * this.pixels),
                 Math.round(this.plotHeight * this.pixels));
    context.clip();
    this.paint(palette);
    context.restore();
    context.setTransform(this.pixels, 0, 0, this.pixels, 0, 0);
    if (axes) drawAxes(this, palette);

    this.ink = palette.ink;
    this.picture = document.createElement('canvas');
    this.picture.width = canvas.width;
    this.picture.height = canvas.height;
    this.picture.getContext('2d').drawImage(canvas, 0, 0);
    this.mark(this.hovered);
  }

  // What stands inside the plot.
  paint(palette) {
    new Blocks(this.context, this.placement, palette, this.pixels)
        .draw([...this.visible()].map(
            (m) => ({m, box: this.inPixels(this.box(m)), whole: this.wholeBox(m)})));
  }

  // Top and bottom, in device pixels, of the ranks that run a micro-batch together; null where another
  // one of them shows it.
  wholeBox(m) {
    const {placement, view} = this;
    if (!placement.leads(m, Math.floor(view.r0))) return null;
    const {y0, y1} = this.groupEdges(m);
    return {
      y0: Math.round(y0 * this.pixels),
      y1: Math.max(Math.round(y0 * this.pixels) + 1, Math.round(y1 * this.pixels)),
    };
  }

  // The same in CSS pixels, of any of them.
  groupEdges(m) {
    const {rank, groupFirst, groupSize} = this.placement;
    if (!groupSize) return this.rowEdges(rank[m]);
    return {
      y0: this.rowEdges(groupFirst[m]).y0,
      y1: this.rowEdges(groupFirst[m] + groupSize[m] - 1).y1,
    };
  }

  * visible() {
    const {placement, view} = this;
    for (const {first, slots, start, end} of placement.miniBatches) {
      if (end < view.t0 || start > view.t1) continue;
      for (let m = first + view.r0 * slots; m < first + view.r1 * slots; ++m) {
        if (placement.until[m] >= view.t0 && placement.start[m] <= view.t1) yield m;
      }
    }
  }

  // Draws frames around what `hovered` is, or none, over the picture as it stands.
  mark(hovered) {
    const {context} = this;
    this.hovered = hovered;
    if (!this.picture) return;
    this.restore();
    if (!hovered) return;
    const {left} = this.style;
    context.strokeStyle = this.ink;
    context.lineWidth = 1.5;
    for (const box of this.frames(hovered)) {
      const x0 = Math.max(left, box.x0);
      const x1 = Math.min(left + this.plotWidth, Math.max(box.x1, box.x0 + 1.5));
      if (x1 >= x0) context.strokeRect(x0, box.y0 - 0.5, x1 - x0, box.y1 - box.y0 + 1);
    }
  }

  // Shades the part that a drag would enlarge.
  select(from, to) {
    this.restore();
    this.context.globalAlpha = 0.15;
    this.context.fillStyle = this.ink;
    this.context.fillRect(from.x, from.y, to.x - from.x, to.y - from.y);
    this.context.globalAlpha = 1;
  }

  restore() {
    const {context, canvas} = this;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, canvas.width, canvas.height);
    context.drawImage(this.picture, 0, 0);
    context.setTransform(this.pixels, 0, 0, this.pixels, 0, 0);
  }
}

// What stands around a timeline's picture: time below, rows to the left, mini-batches above.

function drawAxes(timeline, palette) {
  timeline.context.font = `11.5px ${palette.font}`;
  timeline.context.textBaseline = 'middle';
  drawTimeAxis(timeline, palette);
  drawRowLabels(timeline, palette);
  drawMiniBatches(timeline, palette);
}

function drawText(context, text, x, y, align, color) {
  context.textAlign = align;
  context.fillStyle = color;
  context.fillText(text, x, y);
}

function drawLine(context, x0, y0, x1, y1) {
  context.beginPath();
  context.moveTo(x0, y0);
  context.lineTo(x1, y1);
  context.stroke();
}

function drawTimeAxis(timeline, palette) {
  const {context, view, plotWidth, plotHeight, style} = timeline;
  const right = style.left + plotWidth;
  const bottom = style.top + plotHeight;
  const step = niceStep((view.t1 - view.t0) / Math.max(2, Math.floor(plotWidth / 110)));
  context.strokeStyle = palette.quiet;
  context.lineWidth = 1;
  for (let k = Math.ceil(view.t0 / step); k * step <= view.t1; ++k) {
    const x = Math.round(timeline.x(k * step)) + 0.5;
    drawLine(context, x, bottom, x, bottom + 5);
    const nearEnd = x > right - 30;
    drawText(context, cost(k * step), nearEnd ? right : x, bottom + 13,
             nearEnd ? 'right' : 'center', palette.quiet);
  }
  drawText(context, 'time, in units of predicted cost', style.left, bottom + 28, 'left',
           palette.quiet);
}

// As many as there is room for.
function drawRowLabels(timeline, palette) {
  const {context, view, style, chosen} = timeline;
  const height = timeline.rowHeight();
  let step = 1;
  while (step * height < 15) step *= 2;
  const toMiddle = step > 1 ? 6 : (height >= 14 ? height - 3 : height) / 2;
  for (let row = Math.ceil(view.r0 / step) * step; row < view.r1; row += step) {
    const text = row === view.r0 ? `${timeline.rowName()} ${count(row)}` : count(row);
    drawText(context, text, style.left - 8, timeline.y(row) + toMiddle, 'right',
             row === chosen ? palette.ink : palette.quiet);
  }
  if (chosen === null || chosen < view.r0 || chosen >= view.r1) return;
  const {y0, y1} = timeline.rowEdges(chosen);
  context.fillStyle = palette.ink;
  context.fillRect(style.left - 4, y0, 2.5, Math.max(2, y1 - y0));
}

// Where they begin, and their numbers in a band above, as many as there is room for.
function drawMiniBatches(timeline, palette) {
  const {context, placement, view, style, plotWidth, plotHeight} = timeline;
  const shown =
      [...placement.miniBatches.entries()].filter(
          ([, {start, end}]) => end > start && end > view.t0 && start < view.t1);
  if (placement.miniBatches.length < 2 || shown.length === 0) return;
  drawText(context, 'mini-batch', style.left - 8, style.top - 12, 'right', palette.quiet);
  const room = plotWidth / shown.length;
  const step = niceStep(Math.max(1, 40 / room));
  context.strokeStyle = room < 40 ? palette.quiet : palette.ink;
  context.lineWidth = room < 40 ? 1 : 1.5;
  for (const [k, {start}] of shown) {
    const x = timeline.x(start);
    const named = k % step === 0;
    if (named) {
      drawText(context, count(k), Math.max(style.left, x) + 5, style.top - 12, 'left',
               palette.quiet);
    }
    if (x < style.left || room < 3) continue;
    drawLine(context, x, style.top - (named ? 18 : 5), x, style.top + plotHeight);
  }
}

// 1, 2 or 5 times a power of ten, at least `least`.
function niceStep(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  return power * [1, 2, 5, 10].find((factor) => factor * power >= least);
}
