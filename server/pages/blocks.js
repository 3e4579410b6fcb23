'use strict';

// Paints micro-batches: their sequences, their padding, and the waiting and the bubble after them.
// What is too small to be told apart is painted merged, so that the shares of the area stay true at
// any size.

const SHADES = 7;

// The style sheet's colours, under the current colour scheme.
function readPalette() {
  const style = getComputedStyle(document.documentElement);
  const color = (name) => style.getPropertyValue(`--${name}`).trim();
  const palette = {font: getComputedStyle(document.body).fontFamily};
  for (const name of [
    'surface', 'ink', 'quiet', 'shared', 'padding', 'fixed', 'waiting', 'bubble', 'seam',
  ]) {
    palette[name] = color(name);
  }
  // Of the first chunk of the model and of the last.
  for (const name of ['forward', 'backward']) palette[name] = [color(name), color(`${name}-last`)];
  const shades = Array.from({length: SHADES}, (unused, shade) => shade);
  palette.sequences = shades.map((shade) => color(`sequence-${shade}`));
  palette.labels = shades.map((shade) => color(shade < SHADES / 2 ? 'on-short' : 'on-long'));
  return palette;
}

// A paint of parallel lines that rise, or fall, to the right.
function hatch(context, color, pixels, falls = false) {
  const size = Math.round(5 * pixels);
  const tile = document.createElement('canvas');
  tile.width = tile.height = size;
  const pen = tile.getContext('2d');
  pen.strokeStyle = color;
  pen.lineWidth = pixels;
  for (const shift of [-size, 0, size]) {
    pen.moveTo(shift - 1, falls ? -1 : size + 1);
    pen.lineTo(shift + size + 1, falls ? size + 1 : -1);
  }
  pen.stroke();
  return context.createPattern(tile, 'repeat');
}

// All coordinates are device pixels, `pixels` of them a CSS pixel.
class Blocks {
  constructor(context, placement, palette, pixels) {
    this.context = context;
    this.placement = placement;
    this.palette = palette;
    this.pixels = pixels;
  }

  // `boxes`: {m, box: {x0, x1, until, bubble0, bubble1, y0, y1}, whole: {y0, y1}}. The box is that of
  // a rank, `whole` what its micro-batch takes of the height; null where another box has it.
  draw(boxes) {
    this.drawWaiting(boxes);
    for (const {m, box, whole} of boxes) {
      if (whole) this.drawMicrobatch(m, {...box, ...whole});
    }
  }

  // Hatched, all at once: rows of a pixel join into one surface.
  drawWaiting(boxes) {
    const {context, palette, pixels} = this;
    const waiting = new Path2D();
    const bubbles = new Path2D();
    for (const {box: {x1, until, bubble0, bubble1, y0, y1}} of boxes) {
      if (bubble0 > x1) waiting.rect(x1, y0, bubble0 - x1, y1 - y0);
      if (bubble1 > bubble0) bubbles.rect(bubble0, y0, bubble1 - bubble0, y1 - y0);
      if (until > bubble1) waiting.rect(bubble1, y0, until - bubble1, y1 - y0);
    }
    context.fillStyle = hatch(context, palette.waiting, pixels);
    context.fill(waiting);
    context.fillStyle = hatch(context, palette.bubble, pixels, true);
    context.fill(bubbles);
  }

  drawMicrobatch(m, box) {
    const {placement, palette, pixels} = this;
    const {x0, x1, y0, y1} = box;
    if (x1 <= x0) return;
    const scale = (x1 - x0) / placement.cost[m];
    const begin = x0 + placement.perMicrobatch * scale;
    const inner = Math.round(begin);
    this.fill(palette.fixed, x0, y0, inner, y1);
    if (!placement.padded) {
      this.drawInRow(m, begin, scale, box);
    } else if (y1 - y0 >= 6 * pixels) {
      this.drawStacked(m, inner, box);
    } else {
      this.drawMerged(m, inner, scale, box);
    }
    if (placement.groupSize?.[m] > 1) this.bracket(x0, x1, y0, y1);
    // Parted from the next one, but never so that gaps look like waiting.
    if (x1 - x0 >= 12 * pixels) {
      this.fill(palette.surface, x1 - Math.round(2 * pixels), y0, x1, y1);
    } else if (x1 - x0 >= 4 * pixels) {
      this.fill(palette.seam, x1 - Math.round(pixels), y0, x1, y1);
    }
  }

  // Marks a box that is of several ranks at once, at its left edge.
  bracket(x0, x1, y0, y1) {
    const {palette, pixels} = this;
    if (x1 - x0 < 6 * pixels) return;
    this.fill(palette.ink, x0, y0, x0 + Math.round(1.5 * pixels), y1);
  }

  // A packed row: sequences end to end, each followed by its alignment, the row's tail at the end.
  // Neighbours too narrow to be told apart share a block.
  drawInRow(m, begin, scale, {x1, y0, y1}) {
    const {placement, palette, pixels} = this;
    const end = placement.end[m];
    let at = begin;
    let left = Math.round(begin);
    let parted = true;
    let block = {n: 0, length: 0, padding: 0, common: 0};
    const begins = [];
    for (let i = placement.begin[m]; i < end; ++i) {
      begins.push(at);
      const pieces = placement.piecesOf(m, i);
      for (const {tokens, length, cost, padding, isCommon} of pieces) {
        block.n += 1;
        block.length += length;
        block.padding += padding * scale;
        block.common += isCommon ? 1 : 0;
        at += cost * scale;
        const right = Math.min(x1, Math.round(at));
        if (right - left < 3 * pixels && (i < end - 1 || isCommon)) continue;
        const middle = Math.min(right, Math.round(at - block.padding));
        const shade = this.shade(block.length / block.n);
        const common = 2 * block.common > block.n;
        this.fill(common ? palette.shared : palette.sequences[shade], left, y0, middle, y1);
        this.fill(palette.padding, middle, y0, right, y1);
        const ink = common ? palette.surface : palette.labels[shade];
        if (block.n === 1) this.label(tokens, ink, left, middle, y0, y1);
        // Padding parts neighbours well enough.
        if (!parted && block.n === 1 && right - left >= 4 * pixels) {
          this.fill(palette.seam, left, y0, left + Math.round(pixels), y1);
        }
        parted = right > middle;
        left = right;
        block = {n: 0, length: 0, padding: 0, common: 0};
      }
    }
    this.fill(palette.padding, left, y0, x1, y1);
    if (placement.shared) this.drawBranches(m, [...begins, at], y0, y1);
  }

  // A line below the sequences of a row that begin with the same tokens, from these on. `begins` is
  // where each sequence begins, and the last one ends.
  drawBranches(m, begins, y0, y1) {
    const {placement, palette, pixels} = this;
    const height = Math.round(Math.min(4 * pixels, (y1 - y0) / 4));
    const first = placement.begin[m];
    let from = -1;
    for (let k = 1; k < begins.length; ++k) {
      const shares = first + k < placement.end[m] && placement.shared[first + k] > 0;
      if (shares && from < 0) from = begins[k - 1];
      if (shares || from < 0) continue;
      this.fill(palette.shared, Math.round(from), y1 - height, Math.round(begins[k]), y1);
      from = -1;
    }
  }

  // A padded micro-batch: its sequences below each other, each padded to the width; some of them
  // where there are more than pixels.
  drawStacked(m, inner, {x1, y0, y1}) {
    const {placement, palette, pixels} = this;
    const n = placement.sequences(m);
    const whole = placement.ofSequence(placement.widths[m], m);
    const bars = Math.min(n, y1 - y0);
    for (let k = 0; k < bars; ++k) {
      const length = placement.lengths[placement.begin[m] + Math.floor(k * n / bars)];
      const shade = this.shade(length);
      const top = y0 + Math.round((y1 - y0) * k / bars);
      const bottom = y0 + Math.round((y1 - y0) * (k + 1) / bars);
      const share = whole > 0 ? placement.ofSequence(length, m) / whole : 1;
      const middle = inner + Math.round((x1 - inner) * share);
      this.fill(palette.sequences[shade], inner, top, middle, bottom);
      this.fill(palette.padding, middle, top, x1, bottom);
      if (bars === n) this.label(length, palette.labels[shade], inner, middle, top, bottom);
      if (k > 0 && (y1 - y0) / bars >= 4 * pixels) {
        this.fill(palette.seam, inner, top, x1, top + Math.round(pixels));
      }
    }
  }

  // All sequences as one block, all padding as another.
  drawMerged(m, inner, scale, {x1, y0, y1}) {
    const {placement, palette} = this;
    const shade = this.shade(placement.trueTokens(m) / placement.sequences(m));
    const middle = x1 - Math.round(placement.parts(m).padding * scale);
    this.fill(palette.sequences[shade], inner, y0, middle, y1);
    this.fill(palette.padding, middle, y0, x1, y1);
  }

  // Every shade below the darkest stands for half the length.
  shade(length) {
    const halvings = Math.floor(Math.log2(this.placement.longest / length));
    return Math.max(0, SHADES - 1 - halvings);
  }

  fill(color, x0, y0, x1, y1) {
    if (x1 <= x0 || y1 <= y0) return;
    this.context.fillStyle = color;
    this.context.fillRect(x0, y0, x1 - x0, y1 - y0);
  }

  // A length inside its block, where there is room for it.
  label(length, ink, x0, x1, y0, y1) {
    const {context, palette, pixels} = this;
    if (y1 - y0 < 17 * pixels || x1 - x0 < 16 * pixels) return;
    const text = count(length);
    if (x1 - x0 < (9 + 7 * text.length) * pixels) return;
    context.fillStyle = ink;
    context.font = `${11 * pixels}px ${palette.font}`;
    context.textAlign = 'center';
    context.textBaseline = 'middle';
    context.fillText(text, (x0 + x1) / 2, (y0 + y1) / 2 + pixels / 2);
  }
}
