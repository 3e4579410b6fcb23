'use strict';

// What stands around a timeline's picture: time below, ranks to the left, mini-batches above.

function drawAxes(timeline, palette) {
  timeline.context.font = `11.5px ${palette.font}`;
  timeline.context.textBaseline = 'middle';
  drawTimeAxis(timeline, palette);
  drawRankLabels(timeline, palette);
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
function drawRankLabels(timeline, palette) {
  const {context, view, style} = timeline;
  const height = timeline.rowHeight();
  let step = 1;
  while (step * height < 15) step *= 2;
  const toMiddle = step > 1 ? 6 : (height >= 14 ? height - 3 : height) / 2;
  for (let rank = Math.ceil(view.r0 / step) * step; rank < view.r1; rank += step) {
    drawText(context, rank === view.r0 ? `rank ${count(rank)}` : count(rank), style.left - 8,
             timeline.y(rank) + toMiddle, 'right', palette.quiet);
  }
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
