// The numbers of now, large.

import {$, el, keyed, put} from './dom.js';
import {answers, rates} from './answers.js';
import {duration, rate} from './format.js';
import {isOld} from './lists.js';

export function drawTiles(parent, frame) {
  const perSecond = Object.fromEntries(rates(frame).map((sum, i) => [answers[i].name, sum.rate]));
  const refused = Object.values(perSecond).reduce((a, b) => a + b) - perSecond.admitted - perSecond.challenged;
  const old = isOld(frame.queue), queue = old ? undefined : frame.queue?.value; // an old number would look like one of now
  const tiles = [
    {name: 'admitted', label: 'admitted', text: rate(perSecond.admitted), unit: '/s'},
    {name: 'challenged', label: 'challenged', text: rate(perSecond.challenged), unit: '/s'},
    {name: 'limited', label: 'refused' + (perSecond.unable ? `, ${rate(perSecond.unable)}/s unavailable` : ''), text: rate(refused), unit: '/s', level: perSecond.unable ? 'unable' : ''},
    {name: 'committed', label: 'orders committed', text: queue ? rate(queue.committed * 1000 / frame.window_ms) : '–', unit: queue ? '/s' : '', old},
    {name: 'waiting', label: 'pending orders' + (queue?.waiting ? `, oldest ${duration(queue.oldest_ms)}` : ''), text: queue ? rate(queue.waiting) : '–', unit: '', old, level: late(queue)},
    {name: 'trips', label: 'Redis trips per decision', text: trips(frame), unit: ''},
  ];
  keyed(parent, tiles, (t) => t.name, (t) => el('div', {class: 'tile k-' + t.name}, el('p', {class: 'number'}, el('b'), el('span')), el('p', {class: 'what'})),
    (node, t) => {
      put($('b', node), t.text);
      put($('span', node), t.unit);
      put($('.what', node), t.label);
      node.classList.toggle('old', Boolean(t.old));
      node.dataset.level = t.level ?? '';
    });
}

const late = (queue) => (!queue?.waiting ? '' : queue.oldest_ms > 30_000 ? 'bad' : queue.oldest_ms > 2000 ? 'low' : '');

function trips(frame) {
  const decisions = Object.values(frame.answers).reduce((a, b) => a + b, 0);
  return decisions > 0 ? (frame.round_trips / decisions).toFixed(2) : '–';
}
