// An item's stock running down, as a drawing that a frame a second adds to.

import {$, el, put, svg} from './dom.js';
import {count, duration, time} from './format.js';

const kept = 300_000, height = 100, width = 1000;
const past = new Map();

const nameOf = (sale, item) => sale + '/' + item;

/** remember takes what was there before the page was opened. */
export function remember(curves) {
  past.clear();
  for (const {sale, item, stock} of curves) past.set(nameOf(sale, item), stock);
}

/** follow adds how many are left now, and returns the points, over how long they are drawn, and whether any unit was taken since. */
export function follow(sale, {item, free}, at) {
  const name = nameOf(sale.sale, item);
  const points = past.get(name) ?? [];
  past.set(name, points);
  if (free !== null && !(points.at(-1)?.[0] >= at)) points.push([at, free]);
  while (points.length > 1 && at - points[1][0] > kept) points.shift();
  // It begins where the first unit was taken, so that a sale of seconds fills it as one of minutes.
  const first = points.findIndex((p, i) => i > 0 && p[1] < points[i - 1][1]);
  return {points, at, over: points.length ? Math.min(kept, Math.max(3000, at - points[Math.max(0, first - 1)][0])) : 0, moves: first > 0};
}

export const drawing = () => el('div', {class: 'curve', 'aria-hidden': 'true'}, el('p', {class: 'units'}, el('span'), el('span', {}, '0')),
  svg('svg', {viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: 'none'}, svg('path', {class: 'area'}), svg('path', {class: 'edge'})),
  el('p', {class: 'over'}, el('span'), el('span'), el('span')));

/** draw brings a drawing up to date. */
export function draw(node, stock, {points, at, over}) {
  if (!points.length) return;
  const x = (t) => Math.max(0, (1 - (at - t) / over) * width).toFixed(1);
  const y = (n) => ((1 - n / Math.max(1, stock)) * (height - 2) + 2).toFixed(1);
  const from = Math.max(0, points.findLastIndex((p) => at - p[0] >= over));
  const line = points.slice(from).map(([t, n]) => `${x(t)} ${y(n)}`).join('L');
  $('.area', node).setAttribute('d', `M${x(points[from][0])} ${height}L${line}V${height}Z`);
  $('.edge', node).setAttribute('d', 'M' + line);
  put($('.units span', node), count(stock));
  [time(at - over), `last ${duration(over)}`, time(at)].forEach((text, i) => put($('.over', node).children[i], text));
}
