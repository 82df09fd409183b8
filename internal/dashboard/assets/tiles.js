// The numbers of now, large.

import {el, keyed, put} from './dom.js';
import {answers, rates} from './answers.js';
import {duration, rate} from './format.js';

let before;

export function drawTiles(parent, frame) {
  const perSecond = Object.fromEntries(rates(frame).map((n, i) => [answers[i].name, n]));
  const refused = perSecond.limited + perSecond.banned + perSecond.sold + perSecond.other;
  const queue = frame.queue?.value;
  const tiles = [
    {name: 'admitted', label: 'admitted', text: rate(perSecond.admitted), unit: '/s'},
    {name: 'challenged', label: 'challenged', text: rate(perSecond.challenged), unit: '/s'},
    {name: 'refused', label: 'refused', text: rate(refused), unit: '/s'},
    {name: 'committed', label: 'orders to Postgres', text: queue ? rate(queue.committed * 1000 / frame.window_ms) : '–', unit: '/s'},
    {name: 'waiting', label: 'orders on their way', text: queue ? rate(queue.waiting) : '–', unit: queue?.waiting ? 'oldest ' + duration(queue.oldest_ms) : ''},
    {name: 'trips', label: 'Redis round trips per decision', text: trips(frame), unit: ''},
  ];
  keyed(parent, tiles, (t) => t.name,
    (t) => el('div', {class: 'tile t-' + t.name}, el('p', {class: 'number'}, el('b'), el('span')), el('p', {}, t.label)),
    (node, t) => { put(node.querySelector('b'), t.text); put(node.querySelector('span'), t.unit); });
}

function trips(frame) {
  const now = frame.process;
  const then = before ?? now;
  before = now;
  const decisions = now.decisions - then.decisions;
  return decisions > 0 ? ((now.round_trips - then.round_trips) / decisions).toFixed(2) : '–';
}
