// The stacked chart of the last five minutes.

import uPlot from './uplot/uPlot.esm.js';
import {el, put} from './dom.js';
import {answers, rates} from './answers.js';
import {rate} from './format.js';

const kept = 300;

export class Chart {
  constructor(parent, legend) {
    this.parent = parent;
    this.times = [];
    this.rows = answers.map(() => []);
    this.values = answers.map((a) => {
      const value = el('b');
      legend.append(el('li', {class: 'k-' + a.name}, el('i'), a.label + ' ', value));
      return value;
    });
    this.build();
    new ResizeObserver(() => this.plot.setSize(this.size())).observe(parent);
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => { this.plot.destroy(); this.build(); });
  }

  size() { return {width: Math.max(200, this.parent.clientWidth), height: Math.round(Math.min(420, Math.max(180, innerHeight * 0.3)))}; }

  build() {
    const style = getComputedStyle(document.documentElement);
    const color = (name) => style.getPropertyValue('--' + name).trim();
    const axis = {stroke: color('faint'), grid: {stroke: color('line'), width: 1}, ticks: {stroke: color('line')}, font: '12px system-ui'};
    this.plot = new uPlot({
      ...this.size(),
      padding: [8, 8, 0, 0],
      legend: {show: false},
      cursor: {drag: {x: false, y: false}, points: {show: false}},
      scales: {x: {time: true}, y: {range: (_, low, high) => [0, Math.max(10, high * 1.1)]}},
      axes: [{...axis, space: 70}, {...axis, size: 56, values: (_, ticks) => ticks.map(rate)}],
      // The highest layer first, so that each of the lower ones is drawn over it.
      series: [{}, ...answers.map((_, i) => answers[answers.length - 1 - i]).map((a) => ({label: a.label, stroke: color('k-' + a.name), fill: color('k-' + a.name), width: 1, points: {show: false}}))],
      hooks: {setCursor: [(u) => this.tell(u.cursor.idx)]},
    }, this.data(), this.parent);
  }

  data() {
    const stacked = [];
    let below = this.times.map(() => 0);
    for (const row of this.rows) {
      below = below.map((n, i) => n + row[i]);
      stacked.unshift(below);
    }
    return [this.times, ...stacked];
  }

  reset(history) {
    this.times.length = 0;
    for (const row of this.rows) row.length = 0;
    for (const frame of history) this.push(frame);
    this.plot.setData(this.data());
    this.tell(null);
  }

  add(frame) {
    this.push(frame);
    this.plot.setData(this.data());
    if (this.plot.cursor.idx == null) this.tell(null);
  }

  push(frame) {
    this.times.push(Date.parse(frame.at) / 1000);
    rates(frame).forEach((n, i) => this.rows[i].push(n));
    if (this.times.length > kept) {
      this.times.shift();
      for (const row of this.rows) row.shift();
    }
  }

  // tell puts the numbers of a second into the legend; without one, of the last.
  tell(at) {
    const i = at ?? this.times.length - 1;
    this.values.forEach((value, k) => put(value, i >= 0 ? rate(this.rows[k][i]) : '0'));
  }
}
