// Each sale with its items running down.

import {$, el, keyed, put} from './dom.js';
import {count, day, duration, rate, seconds} from './format.js';
import {change} from './actions.js';
import {told} from './lists.js';
import {draw, drawing} from './curve.js';

export function drawSales(parent, part, more, now) {
  if (!told(parent, part, more && `and ${count(more)} more, in tidegate sales`)) return;
  const at = Date.parse(now) - part.age_ms;
  keyed(parent, part.value, (s) => s.sale, make, (node, sale) => update(node, sale, at), 'No sale is defined. Create one with "tidegate sales create".');
}

const make = (sale) => el('article', {class: 'sale'},
  el('header', {}, el('h3', {}, sale.sale), el('span', {class: 'badge'}), el('span', {class: 'hours'}), el('button', {class: 'switch change', onclick: (e) => turn(sale.sale, e.currentTarget)})),
  el('div', {class: 'items'}), el('p', {class: 'more'}));

const questions = {
  Pause: ['pause', 'No orders are accepted until it is resumed. Existing orders continue.'],
  Resume: ['open', 'Orders are accepted again, within its hours.'],
  Open: ['open', 'It is published, and orders are accepted from its start.'],
};

// One button, so that the focus stays where it is when the sale has been paused.
function turn(sale, button) {
  const [verb, question] = questions[button.textContent];
  change(button.textContent, sale, question, 'POST', `/v1/sales/${encodeURIComponent(sale)}/${verb}`, button);
}

const verbOf = (sale) => (sale.draft ? 'Open' : {open: 'Pause', scheduled: 'Pause', paused: 'Resume'}[sale.state]);

function update(node, sale, at) {
  node.dataset.state = sale.state;
  put($('.badge', node), sale.draft ? 'draft' : sale.state);
  const starts = Date.parse(sale.starts_at) - at, ends = Date.parse(sale.ends_at) - at;
  const over = sale.state === 'closed' || sale.state === 'ended', end = day(sale.ends_at);
  put($('.hours', node), over ? (ends > 0 ? `planned until ${end}` : `ended ${end}`)
    : starts > 0 ? `from ${day(sale.starts_at)}, in ${duration(starts)}` : `until ${end}, for ${duration(ends)}`);
  const button = $('.switch', node), verb = verbOf(sale);
  button.hidden = !verb;
  if (verb) put(button, verb);
  keyed($('.items', node), sale.items, (it) => it.item, makeItem, (item, it) => updateItem(item, sale, it, at));
  node.classList.toggle('moves', !over && $('.moves', node) !== null);
  put($('.more', node), sale.more_items ? `and ${count(sale.more_items)} more items; ${sale.in_all.free === null ? '–' : count(sale.in_all.free)} of ${count(sale.in_all.stock)} left in all` : '');
}

const makeItem = () => el('div', {class: 'item'}, el('div', {class: 'inside'},
  el('p', {class: 'name'}), el('p', {class: 'left'}, el('b'), el('span')), el('p', {class: 'pace'}), drawing(), el('p', {class: 'over'})));

function updateItem(node, sale, it, at) {
  const gone = it.free === 0;
  const known = it.free !== null; // not while it recovers
  node.dataset.level = gone ? 'gone' : known && it.free * 4 < it.stock ? 'low' : '';
  node.dataset.free = it.free ?? '';
  put($('.name', node), it.item);
  put($('b', node), gone ? 'Sold out' : known ? count(it.free) : '–');
  put($('.left span', node), gone ? (it.stock ? `all ${count(it.stock)}` : '') : `of ${count(it.stock)} left`);
  put($('.pace', node), it.per_second > 0 && !gone
    ? `sold out in ${it.sold_out_in_ms < 1000 ? 'less than 1 s' : duration(it.sold_out_in_ms)} at ${rate(it.per_second)}/s, counted over ${seconds(it.over_ms)}`
    : it.per_second > 0 ? `${rate(it.per_second)}/s, counted over ${seconds(it.over_ms)}` : sale.state === 'open' && !gone && it.over_ms >= 5000 ? `no purchases in the last ${duration(it.over_ms)}` : '');
  const {since, moves} = draw($('.curve', node), sale, it, at);
  put($('.over', node), since);
  node.classList.toggle('moves', moves);
}
