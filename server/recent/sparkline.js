'use strict';

// A line as small as a word, as the page's template has it.

// `shares`, 0 to 1 each, the oldest first; `label` says the same to those who don't see it.
function sparkline(shares, label) {
  const picture = byId('sparkline').content.firstElementChild.cloneNode(true);
  const [ground, area, line, last] = picture.children;
  const [left, right, bottom] = ['x1', 'x2', 'y1'].map((name) => Number(ground.getAttribute(name)));
  const top = picture.viewBox.baseVal.height - bottom;
  const points = shares.map((share, i) => [
    shares.length > 1 ? left + (right - left) * i / (shares.length - 1) : right,
    bottom - (bottom - top) * Math.min(1, Math.max(0, share)),
  ]);
  const [first, end] = [points[0], points[points.length - 1]];
  const text = (corners) => corners.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join(' ');
  area.setAttribute('points', text([[first[0], bottom], ...points, [end[0], bottom]]));
  line.setAttribute('points', text(points));
  last.setAttribute('cx', end[0]);
  last.setAttribute('cy', end[1]);
  picture.setAttribute('aria-label', label);
  return picture;
}
