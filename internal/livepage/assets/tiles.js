// The numbers of now, large: how fast, who works, and what is wrong.

import {$, el, keyed, put} from './dom.js';
import {answers, rates} from './answers.js';
import {count, duration, latency, plural, rate} from './format.js';
import {isOld, oldest} from './lists.js';

export function drawTiles(parent, frame) {
  const perSecond = Object.fromEntries(rates(frame).map((sum, i) => [answers[i].name, sum.rate]));
  const refused = Object.values(perSecond).reduce((a, b) => a + b) - perSecond.admitted - perSecond.challenged;
  const old = isOld(frame.queue), queue = old ? undefined : frame.queue?.value; // an old number would look like one of now
  const {processes, workers} = frame.process;
  const tiles = [
    {name: 'admitted', label: 'admitted', text: rate(perSecond.admitted), unit: '/s'},
    {
      name: 'limited', text: rate(refused), unit: '/s', level: perSecond.unable ? 'unable' : '',
      label: 'refused' + (perSecond.challenged ? `, ${rate(perSecond.challenged)}/s challenged` : '') + (perSecond.unable ? `, ${rate(perSecond.unable)}/s unavailable` : ''),
    },
    {name: 'took', label: frame.latency ? `answer p50 · p99 ${latency(frame.latency.p99_us)}` : 'no answers in the last second', ...withUnit(frame.latency ? latency(frame.latency.p50_us) : '–')},
    {name: 'workers', label: `${workers === 1 ? 'worker' : 'workers'} · ${plural(processes, 'API')}`, text: workers === undefined ? '–' : count(workers), level: workers === 0 ? 'bad' : ''},
    {name: 'committed', label: 'orders committed', text: queue ? rate(queue.committed * 1000 / frame.window_ms) : '–', unit: queue ? '/s' : '', old},
    {name: 'waiting', label: 'pending orders' + (queue?.waiting ? `, the oldest for ${oldest(queue, frame.at)}` : ''), text: queue ? rate(queue.waiting) : '–', old, level: late(queue)},
    paid(frame.sales),
    invariants(frame),
  ];
  keyed(parent, tiles, (t) => t.name, (t) => el('div', {class: 'tile k-' + t.name}, el('p', {class: 'number'}, el('b'), el('span')), el('p', {class: 'what'})),
    (node, t) => {
      put($('b', node), t.text);
      put($('span', node), t.unit ?? '');
      put($('.what', node), t.label);
      node.classList.toggle('old', Boolean(t.old));
      node.dataset.level = t.level ?? '';
    });
}

const late = (queue) => (!queue?.waiting ? '' : queue.oldest_ms > 30_000 ? 'bad' : queue.oldest_ms > 2000 ? 'low' : '');

function withUnit(text) {
  const [number, unit] = text.split(' ');
  return {text: number, unit};
}

function paid(sales) {
  const all = (sales?.value ?? []).flatMap((s) => s.orders ?? []), sum = (name) => all.reduce((n, o) => n + o[name], 0), refunds = sum('refunds');
  return {
    name: 'paid', label: `orders paid · ${plural(refunds, 'refund')} due`, text: all.length ? count(sum('paid')) : '–', level: refunds ? 'low' : '',
    old: isOld(sales) || all.some((o) => o.age_ms > 60_000),
  };
}

function invariants({at, process: {invariants: v}}) {
  if (!v) return {name: 'invariants', text: '–', label: 'invariants, not verified lately'};
  const when = `${duration(Date.parse(at) - Date.parse(v.verified_at))} ago`;
  return v.violations ? {name: 'invariants', text: count(v.violations), label: `${v.violations === 1 ? 'violation' : 'violations'} of invariants, verified ${when}`, level: 'bad'}
    : {name: 'invariants', text: 'OK', label: `invariants, ${plural(v.sales, 'sale')} verified ${when}`};
}
