'use strict';

// The picture of one plan with what belongs to it on the page: its summary in words, the legend,
// what is under the pointer, and enlarging a part.

const MOST_LISTED = 8;

const byId = (id) => document.getElementById(id);

class Explorer {
  constructor() {
    this.canvas = byId('timeline');
    this.timeline = new Timeline(this.canvas);
    this.tooltip = byId('tooltip');
    this.dragFrom = null;
    this.listen();
  }

  show(placement) {
    byId('summary').textContent = summaryText(placement);
    fillShares(byId('shares'), placement.time, placement.duration * placement.ranks || 1);
    byId('legend').replaceChildren(...legendEntries(placement));
    byId('hint').hidden = placement.size === 0;
    byId('reset').hidden = true;
    this.canvas.hidden = placement.size === 0;
    this.canvas.setAttribute('aria-label', 'Micro-batches of every rank over time. ' +
        'The arrow keys go from one to the next.');
    this.timeline.show(placement);
  }

  listen() {
    const {canvas, timeline} = this;
    canvas.addEventListener('pointerdown', (event) => { this.dragFrom = this.point(event); });
    canvas.addEventListener('pointermove', (event) => this.pointAt(event));
    canvas.addEventListener('pointerleave', () => this.showTooltip(null));
    canvas.addEventListener('blur', () => this.showTooltip(null));
    canvas.addEventListener('keydown', (event) => this.pressKey(event));
    addEventListener('pointerup', (event) => {
      if (!this.dragFrom) return;
      timeline.enlarge(this.dragFrom, this.point(event));
      this.dragFrom = null;
      byId('reset').hidden = timeline.showsAll();
    });
    const showAll = () => {
      timeline.showAll();
      byId('reset').hidden = true;
    };
    canvas.addEventListener('dblclick', showAll);
    byId('reset').addEventListener('click', showAll);
    redrawWithPage(timeline);
  }

  point(event) {
    const {left, top} = this.canvas.getBoundingClientRect();
    return {x: event.clientX - left, y: event.clientY - top};
  }

  pointAt(event) {
    const at = this.point(event);
    const dragging = this.dragFrom && event.buttons === 1;
    this.showTooltip(dragging ? null : this.timeline.at(at), event.clientX, event.clientY);
    if (dragging) this.timeline.select(this.dragFrom, at);
  }

  // Shows the tooltip for `found`, {m, sequence}, near a point of the window; null hides it.
  showTooltip(found, x, y) {
    const {timeline, tooltip} = this;
    if (found?.m !== timeline.hovered?.m) timeline.mark(found);
    tooltip.hidden = !found;
    if (!found) return;
    const {placement} = timeline;
    tooltip.replaceChildren(element('strong', '', placeText(placement, found.m)),
                            tableOf(microbatchRows(placement, found.m)),
                            tableOf(sequenceRows(placement, found)));
    const {width, height} = tooltip.getBoundingClientRect();
    const right = x + 16 + width < innerWidth ? x + 16 : x - 16 - width;
    tooltip.style.left = `${Math.max(8, right)}px`;
    tooltip.style.top = `${Math.max(8, Math.min(y + 16, innerHeight - height - 8))}px`;
  }

  pressKey(event) {
    const {placement, hovered} = this.timeline;
    const moves =
        {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1]};
    if (event.key === 'Escape') this.showTooltip(null);
    if (!moves[event.key] || placement.size === 0) return;
    event.preventDefault();
    this.speak(hovered ? placement.neighbour(hovered.m, ...moves[event.key]) : 0);
  }

  // What the keyboard has gone to, for eyes and for screen readers.
  speak(m) {
    const {placement} = this.timeline;
    const box = this.timeline.box(m);
    const canvas = this.canvas.getBoundingClientRect();
    this.showTooltip({m, sequence: -1}, canvas.left + box.x0, canvas.top + box.y1);
    byId('spoken').textContent = `${placeText(placement, m)}: ` +
        microbatchRows(placement, m).map(([label, value]) => `${label} ${value}`).join(', ');
  }
}

// Keeps a timeline as wide as its place, and in the current colours.
function redrawWithPage(timeline) {
  new ResizeObserver(() => timeline.draw()).observe(timeline.canvas.parentElement);
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => timeline.draw());
}

function legendEntries(placement) {
  const entry = (paint, text) =>
      element('li', '', element('span', `swatch ${paint}`), text);
  const {shortest, longest, lengths, time} = placement;
  const range = shortest < longest ? `${count(shortest)} to ${count(longest)}` : count(longest);
  return [
    lengths.length > 0 && entry('paint_lengths', `sequences of ${range} tokens`),
    time.padding > 0 && entry('paint_padding', 'padding'),
    time.fixed > 0 && entry('paint_fixed', 'fixed cost of a micro-batch'),
    time.waiting > 0 && entry('paint_waiting', 'waiting'),
  ].filter(Boolean);
}

// What is known of micro-batch m, as [label, value] rows.
function microbatchRows(placement, m) {
  const waiting = ['waiting after it', cost(placement.waiting(m))];
  if (placement.sequences(m) === 0) return [['sequences', 'none'], waiting];
  return [
    ['cost', cost(placement.cost[m])],
    waiting,
    ['sequences', count(placement.sequences(m))],
    ['true tokens', count(placement.trueTokens(m))],
    ['scheduled tokens', count(placement.scheduledTokens(m))],
    [placement.padded ? 'padded width' : 'row width', count(placement.widths[m])],
  ];
}

// A window of the list of sequences, around the one pointed at.
function sequenceRows(placement, {m, sequence}) {
  const begin = placement.offsets[m];
  const end = placement.offsets[m + 1];
  const first = Math.max(begin, Math.min(end - MOST_LISTED, Math.max(begin, sequence - 3)));
  const last = Math.min(end, first + MOST_LISTED);
  const rows = [];
  if (first > begin) rows.push([`${count(first - begin)} before`, '…']);
  for (let i = first; i < last; ++i) {
    const name = placement.indices.length > 0 ? `sequence ${placement.indices[i]}` : 'sequence';
    rows.push([name, count(placement.lengths[i]), i === sequence]);
  }
  if (last < end) rows.push([`${count(end - last)} after`, '…']);
  return rows;
}

function placeText(placement, m) {
  const miniBatch = placement.miniBatches.length > 1 ?
      `mini-batch ${count(placement.miniBatch[m])}, ` : '';
  return `${miniBatch}rank ${count(placement.rank[m])}, slot ${count(placement.slot[m])}`;
}

function tableOf(rows) {
  return element('table', '', ...rows.map(([label, value, here]) => element(
      'tr', here ? 'here' : '', element('td', '', label), element('td', '', value))));
}
