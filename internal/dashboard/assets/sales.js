// Each sale with its items running down.

import {el, keyed, put} from './dom.js';
import {count, duration, rate, time} from './format.js';
import {change} from './actions.js';
import {aged} from './lists.js';

export function drawSales(parent, part) {
  if (!part) return;
  aged(parent, part);
  keyed(parent, part.value, (s) => s.sale, make, update, 'No sale is defined. tidegate sales create makes one.');
}

function make(sale) {
  const path = '/v1/sales/' + encodeURIComponent(sale.sale);
  const act = (verb, label, question) => el('button', {
    class: verb, onclick: (e) => change(`${label} ${sale.sale}`, question, 'POST', `${path}/${verb}`, e.currentTarget),
  }, label);
  return el('article', {class: 'sale'},
    el('header', {}, el('h3', {}, sale.sale), el('span', {class: 'badge'}), el('span', {class: 'hours'}),
      el('span', {class: 'buttons'}, act('pause', 'Pause', 'Nobody can order until it is resumed. Orders that stand go on.'),
        act('open', 'Resume', 'Orders are taken again, within its hours.'))),
    el('div', {class: 'items'}));
}

function update(node, sale) {
  node.dataset.state = sale.state;
  put(node.querySelector('.badge'), sale.state);
  put(node.querySelector('.hours'), sale.state === 'scheduled' ? 'opens ' + time(sale.starts_at) : 'ends ' + time(sale.ends_at));
  node.querySelector('.pause').hidden = sale.state !== 'open';
  node.querySelector('.open').hidden = sale.state !== 'paused';
  keyed(node.querySelector('.items'), sale.items, (it) => it.item,
    () => el('div', {class: 'item'}, el('p', {class: 'name'}), el('meter', {min: 0}), el('p', {class: 'left'}, el('b'), el('span')), el('p', {class: 'pace'})),
    (row, it) => {
      put(row.querySelector('.name'), it.item);
      const meter = row.querySelector('meter');
      meter.max = it.stock; meter.low = it.stock / 4; meter.optimum = it.stock; meter.value = it.free;
      meter.setAttribute('aria-label', `${it.item}: ${it.free} of ${it.stock} left`);
      put(row.querySelector('b'), count(it.free));
      put(row.querySelector('.left span'), ' of ' + count(it.stock));
      row.classList.toggle('sold', it.free === 0);
      put(row.querySelector('.pace'), it.free === 0 ? 'sold out' : it.per_second > 0 ? `${rate(it.per_second)}/s · sold out in ${duration(it.sold_out_in_ms)}` : 'nobody is buying');
    });
}
