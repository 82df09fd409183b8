// An item's stock running down, as a drawing that a frame a second adds to.

import {svg} from './dom.js';
import {duration} from './format.js';

const kept = 300_000, height = 100, width = 1000;
const past = new Map();

const nameOf = (sale, item) => sale + '/' + item;

/** remember takes what was there before the page was opened. */
export function remember(curves) {
  past.clear();
  for (const {sale, item, stock} of curves) past.set(nameOf(sale, item), stock);
}

export const drawing = () => svg('svg', {class: 'curve', viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: 'none', 'aria-hidden': 'true'},
  svg('path', {class: 'area'}), svg('path', {class: 'edge'}));

/** draw adds how many are left now, and returns how long ago the drawing begins, and whether anything was taken since. */
export function draw(node, sale, {item, free, stock}, at) {
  const name = nameOf(sale.sale, item);
  const points = past.get(name) ?? [];
  past.set(name, points);
  if (free !== null && !(points.at(-1)?.[0] >= at)) points.push([at, free]);
  if (!points.length) return {since: '', moves: false};
  while (points.length > 1 && at - points[1][0] > kept) points.shift();
  // It begins where the first unit was taken, so that a sale of seconds fills it as one of minutes.
  const first = points.findIndex((p, i) => i > 0 && p[1] < points[i - 1][1]);
  const over = Math.min(kept, Math.max(3000, at - points[Math.max(0, first - 1)][0]));
  const x = (t) => Math.max(0, (1 - (at - t) / over) * width).toFixed(1);
  const y = (n) => ((1 - n / Math.max(1, stock)) * (height - 2) + 2).toFixed(1);
  const from = Math.max(0, points.findLastIndex((p) => at - p[0] >= over));
  const line = points.slice(from).map(([t, n]) => `${x(t)} ${y(n)}`).join('L');
  node.children[0].setAttribute('d', `M${x(points[from][0])} ${height}L${line}V${height}Z`);
  node.children[1].setAttribute('d', 'M' + line);
  return {since: `last ${duration(over)}`, moves: first > 0};
}
