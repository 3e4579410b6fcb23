'use strict';

// Text and elements. Whatever comes from the data enters the page as text, never as markup.

const numberFormat = new Intl.NumberFormat('en-US');

// 1234567 as "1,234,567". 64-bit integers arrive as strings, to the last digit.
function count(number) {
  return numberFormat.format(typeof number === 'string' ? BigInt(number) : number ?? 0);
}

// "1 rank", "2 ranks".
function countOf(number, one, many = `${one}s`) {
  return `${count(number)} ${Number(number) === 1 ? one : many}`;
}

// A cost, to four digits or to the unit.
function cost(value) {
  const number = Number(value ?? 0);
  return number.toLocaleString('en-US', Math.abs(number) >= 1000 ?
      {maximumFractionDigits: 0} : {maximumSignificantDigits: 4});
}

// 0.9371 as "93.7%"; a share that is little, but not nothing, does not read as nothing.
function percent(share) {
  const number = Number(share ?? 0);
  if (number === 0) return '0%';
  if (number > 0 && number < 0.0005) return '<0.1%';
  return `${(number * 100).toFixed(1)}%`;
}

function ratio(value) {
  return Number(value ?? 0).toFixed(3);
}

// An element of class `className` holding `children`: elements and strings.
function element(tag, className, ...children) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  made.append(...children);
  return made;
}

// The JSON that stands in the page under `id`.
function pageData(id) {
  return JSON.parse(document.getElementById(id).textContent);
}

// The part of a time that goes where: used by the bar, the legend and the summary.
const SHARES = [
  {key: 'sequences', paint: 'paint_sequences', label: 'sequences'},
  {key: 'padding', paint: 'paint_padding', label: 'padding'},
  {key: 'fixed', paint: 'paint_fixed', label: 'fixed cost of micro-batches'},
  {key: 'bubble', paint: 'paint_bubble', label: 'bubbles of pipelines'},
  {key: 'waiting', paint: 'paint_waiting', label: 'waiting'},
];

// Fills `bar` with `time`'s parts, {sequences, padding, fixed, bubble, waiting}, of `whole`.
function fillShares(bar, time, whole) {
  bar.replaceChildren(...SHARES.filter(({key}) => time[key] > 0).map(({key, paint, label}) => {
    const part = element('div', paint);
    part.style.flexBasis = `${100 * time[key] / whole}%`;
    part.title = `${label} ${percent(time[key] / whole)}`;
    return part;
  }));
}
