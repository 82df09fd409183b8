// Each sale with its items running down.

import {$, el, keyed, name, put} from './dom.js';
import {count, day, duration, plural, rate, seconds, time} from './format.js';
import {change} from './actions.js';
import {told} from './lists.js';
import {draw, drawing, follow} from './curve.js';

export function drawSales(parent, part, more, now) {
  if (!told(parent, part, more && `and ${count(more)} more, in tidegate sales`)) return;
  const at = Date.parse(now) - part.age_ms;
  const sales = part.value.map((sale) => ({...sale, curves: sale.items.map((it) => follow(sale, it, at))}));
  // What moves is first and large, and what is over last: in the document too, so that the tab key follows what is seen.
  sales.sort((a, b) => place(a) - place(b));
  keyed(parent, sales, (s) => s.sale, make, (node, sale) => update(node, sale, at), 'No sale is defined. Create one with "tidegate sales create".');
}

const isOver = (sale) => sale.state === 'closed' || sale.state === 'ended';
const moves = (sale) => !isOver(sale) && sale.curves.some((c) => c.moves);
const place = (sale) => (isOver(sale) ? 2 : moves(sale) ? 0 : 1);

const make = (sale) => el('article', {class: 'sale'},
  el('header', {}, el('h3', {}, sale.sale), el('span', {class: 'badge'}), el('span', {class: 'hours'}), el('button', {class: 'fold', 'aria-expanded': 'false', 'aria-label': `Show ${sale.sale}`, onclick: (e) => fold(sale.sale, e.currentTarget)}, 'Show'), el('button', {class: 'switch change', onclick: (e) => turn(sale.sale, e.currentTarget)})),
  el('div', {class: 'items'}), el('p', {class: 'more'}), el('p', {class: 'totals'}));

// On a phone a sale that is sold out is its heading, until somebody wants to see more.
function fold(sale, button) {
  const shown = button.closest('.sale').classList.toggle('unfolded');
  button.setAttribute('aria-expanded', shown);
  put(button, shown ? 'Hide' : 'Show');
  name(button, `${shown ? 'Hide' : 'Show'} ${sale}`);
}

const questions = {
  Pause: ['pause', 'No orders are accepted until it is resumed. Existing orders continue.'],
  Resume: ['open', 'Orders are accepted again, within its hours.'],
  Open: ['open', 'It is published, and orders are accepted from its start.'],
};

// One button, so that the focus stays where it is when the sale has been paused.
function turn(sale, button) {
  const [verb, question] = questions[button.value]; // its text may be translated
  change(button.value, sale, question, 'POST', `/v1/sales/${encodeURIComponent(sale)}/${verb}`, button);
}

const verbOf = (sale) => (sale.draft ? 'Open' : {open: 'Pause', scheduled: 'Pause', paused: 'Resume'}[sale.state]);

function update(node, sale, at) {
  node.dataset.state = sale.state;
  put($('.badge', node), sale.draft ? `${sale.state}, draft` : sale.state);
  const starts = Date.parse(sale.starts_at) - at, ends = Date.parse(sale.ends_at) - at;
  const over = isOver(sale), end = day(sale.ends_at), gone = !over && isGone(sale);
  node.classList.toggle('gone', gone);
  put($('.hours', node), (gone ? 'sold out · ' : '') + (over ? (ends > 0 ? `planned until ${end}` : `ended ${end}`)
    : starts > 0 ? `from ${day(sale.starts_at)}, in ${duration(starts)}` : `until ${end}, for ${duration(ends)}`));
  const button = $('.switch', node), verb = verbOf(sale);
  button.hidden = !verb;
  if (verb) {
    button.value = verb;
    name(put(button, verb), `${verb} ${sale.sale}`);
  }
  keyed($('.items', node), sale.items, (it) => it.item, makeItem, (item, it) => updateItem(item, sale, it, sale.curves[sale.items.indexOf(it)], at));
  node.classList.toggle('moves', moves(sale));
  put($('.more', node), sale.more_items ? `and ${count(sale.more_items)} more items; ${sale.in_all.free === null ? '–' : count(sale.in_all.free)} of ${count(sale.in_all.stock)} left in all` : '');
  put($('.totals', node), sale.orders ? totals(sale.orders) : '');
}

const isGone = (sale) => sale.items.length > 0 && sale.items.every((it) => it.free === 0) && (sale.in_all?.free ?? 0) === 0;

/** totals are how far the orders are, without what there is none of. */
function totals(o) {
  const counts = [[o.paid, 'paid'], [o.confirmed, 'confirmed'], [o.cancelled, 'cancelled'], [o.expired, 'expired'], [o.rejected, 'rejected']].filter(([n]) => n > 0).map(([n, name]) => `${count(n)} ${name}`);
  return `Orders: ${counts.join(' · ') || 'none'}` + (o.refunds ? ` · ${plural(o.refunds, 'refund')} due` : '') + (o.age_ms > 10_000 ? ` · as of ${duration(o.age_ms)} ago` : '');
}

const makeItem = () => el('div', {class: 'item'}, el('div', {class: 'inside'},
  el('p', {class: 'name'}), el('p', {class: 'left'}, el('b'), el('span')), el('p', {class: 'pace'}), el('p', {class: 'back'}), drawing()));

function updateItem(node, sale, it, curve, at) {
  const gone = it.free === 0;
  const known = it.free !== null; // not while it recovers
  node.dataset.level = gone ? 'gone' : known && it.free * 4 < it.stock ? 'low' : '';
  node.dataset.free = it.free ?? '';
  put($('.name', node), it.item);
  put($('b', node), gone ? 'Sold out' : known ? count(it.free) : '–');
  put($('.left span', node), gone ? (it.stock ? `all ${count(it.stock)}${it.sold_out_at ? `, at ${moment(it.sold_out_at, at)}` : ''}` : '') : `of ${count(it.stock)} left`);
  put($('.pace', node), it.per_second > 0 && !gone
    ? `sold out in ${it.sold_out_in_ms < 1000 ? 'less than 1 s' : duration(it.sold_out_in_ms)} at ${rate(it.per_second)}/s, counted over ${seconds(it.over_ms)}`
    : it.per_second > 0 ? `${rate(it.per_second)}/s, counted over ${seconds(it.over_ms)}` : sale.state === 'open' && !gone && it.over_ms >= 5000 ? `no purchases in the last ${duration(it.over_ms)}` : '');
  const back = (it.cancelled ?? 0) + (it.expired ?? 0);
  put($('.back', node), back ? `${plural(back, 'unit')} came back: ${[it.expired && `${count(it.expired)} not paid in time`, it.cancelled && `${count(it.cancelled)} cancelled`].filter(Boolean).join(', ')}` : '');
  draw($('.curve', node), it.stock, curve);
  node.classList.toggle('moves', curve.moves);
}

/** moment is a time of today, or a date. */
const moment = (text, now) => (now - Date.parse(text) < 12 * 3_600_000 ? time(text) : day(text));
