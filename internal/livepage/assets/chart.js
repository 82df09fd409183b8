// The stacked chart of up to five minutes, and the list beside it.

import uPlot from './uplot/uPlot.esm.js';
import {$, el, keyed, put} from './dom.js';
import {answers, rates, totals} from './answers.js';
import {count, duration, latency, rate, seconds, time, words} from './format.js';

const kept = 300, least = 30, before = 5; // seconds
const scale = () => parseFloat(getComputedStyle(document.documentElement).fontSize) / 16;

export class Chart {
  constructor(parent, took) {
    this.parent = parent;
    this.took = took;
    this.frames = [];
    this.lines = answers.map((a) => {
      const line = {value: el('b'), reasons: el('ul', {class: 'reasons'})};
      $('#legend').append(el('li', {class: 'k-' + a.name}, el('i'), el('span', {}, a.label), line.value, line.reasons));
      return line;
    });
    this.build();
    new ResizeObserver(() => (this.scale === scale() ? this.resize() : this.rebuild())).observe(parent);
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.rebuild());
  }

  /** begin is a little before somebody came, so that a sale of seconds fills the chart as one of minutes. */
  begin(high) {
    const first = this.frames.find((f) => f.sums.some((sum) => sum.rate > 0))?.at ?? high;
    return Math.max(high - kept, Math.min(first - before, high - least));
  }

  size(of) { return {width: Math.max(200, of.clientWidth), height: of.clientHeight}; }

  resize() {
    this.plot.setSize(this.size(this.parent));
    this.times.setSize(this.size(this.took));
  }

  rebuild() {
    this.plot.destroy();
    this.times.destroy();
    this.build();
  }

  build() {
    const style = getComputedStyle(document.documentElement);
    const color = (name) => style.getPropertyValue('--' + name).trim();
    const at = this.scale = scale();
    const axis = {stroke: color('faint'), grid: {stroke: color('line'), width: 1}, ticks: {show: false}, font: `${12 * at}px system-ui`};
    const both = {
      padding: [8, 28 * at, 0, 0],
      legend: {show: false},
      cursor: {drag: {x: false, y: false}, points: {show: false}, y: false},
      hooks: {setCursor: [(u) => this.tell(u.cursor.idx)]},
    };
    const x = {time: true, range: (_, low, high) => [this.begin(high), high]};
    const axes = (text) => [{...axis, space: 90 * at, size: 28 * at, values: (_, ticks) => ticks.map((t) => time(t * 1000))}, {...axis, size: 64 * at, values: (_, ticks) => ticks.map(text)}];
    this.plot = new uPlot({
      ...both, ...this.size(this.parent),
      scales: {x, y: {range: (_, low, high) => [0, Math.max(10, high * 1.1)]}},
      axes: axes(rate),
      // The highest layer first, so that each of the lower ones is drawn over it.
      series: [{}, ...answers.toReversed().map((a) => ({label: a.label, stroke: color('k-' + a.name), fill: color('k-' + a.name), width: 1, points: {show: false}}))],
    }, this.data(), this.parent);
    this.times = new uPlot({
      ...both, ...this.size(this.took),
      scales: {x, y: {range: (_, low, high) => [0, Math.max(1000, (high ?? 0) * 1.1)]}},
      axes: axes(latency),
      series: [{}, ...['p50', 'p99'].map((name) => ({label: name, stroke: color('k-' + name), width: 2, points: {size: 4, fill: color('k-' + name)}}))],
    }, this.latencies(), this.took);
    describe(this.plot, 'Results of requests per second over up to five minutes; the list beside it has the numbers');
    describe(this.times, 'Time to the answer over up to five minutes, p50 and p99; the line above it has the numbers');
  }

  latencies() { return [this.frames.map((f) => f.at), ...['p50_us', 'p99_us'].map((name) => this.frames.map((f) => f.latency?.[name] ?? null))]; }

  show() {
    this.plot.setData(this.data());
    this.times.setData(this.latencies());
  }

  data() {
    const layers = answers.map(() => []);
    for (const {sums} of this.frames) {
      let below = 0;
      sums.forEach((sum, i) => layers[i].push(below += sum.rate));
    }
    return [this.frames.map((f) => f.at), ...layers.reverse()];
  }

  reset(frames) {
    this.frames = [];
    frames.forEach((frame) => this.push(frame));
    this.show();
    this.tell(null);
  }

  add(frame) {
    this.push(frame);
    this.show();
    if (this.plot.cursor.idx == null && this.times.cursor.idx == null) this.tell(null);
  }

  push(frame) {
    this.frames.push({at: Date.parse(frame.at) / 1000, window: frame.window_ms, answers: frame.answers, latency: frame.latency, trips: frame.round_trips, sums: rates(frame)});
    while (this.frames.at(-1).at - this.frames[0].at > kept) this.frames.shift();
  }

  /** tell puts the numbers of a second into the list; without one, of the last. */
  tell(at) {
    const frame = this.frames[at ?? this.frames.length - 1];
    if (!frame) return;
    const all = this.frames.reduce((ms, f) => ms + f.window, 0);
    put($('#moment'), `per second ${at == null ? 'now' : 'at ' + time(frame.at * 1000)}, counted over ${seconds(frame.window)}; below, totals by reason for ${duration(1000 * Math.round(all / 1000))}`);
    put($('#took-moment'), frame.latency ? `${latency(frame.latency.p50_us)} and ${latency(frame.latency.p99_us)}${at == null ? '' : ' at ' + time(frame.at * 1000)}` : 'no answers');
    const decisions = Object.values(frame.answers).reduce((a, b) => a + b, 0);
    put($('#trips'), `Redis trips per decision: ${decisions && frame.trips !== undefined ? (frame.trips / decisions).toFixed(2) : '–'}`);
    const sums = totals(this.frames);
    this.lines.forEach((line, i) => {
      put(line.value, rate(frame.sums[i].rate) + '/s');
      keyed(line.reasons, sums[i], ([reason]) => reason, () => el('li', {}, el('span'), el('span')), (node, [reason, n]) => {
        node.dataset.reason = reason;
        node.dataset.count = n;
        put(node.firstChild, words(reason) === answers[i].label ? 'total' : words(reason));
        put(node.lastChild, count(n));
      });
    });
  }
}

function describe(plot, text) {
  plot.ctx.canvas.setAttribute('role', 'img');
  plot.ctx.canvas.setAttribute('aria-label', text);
}
