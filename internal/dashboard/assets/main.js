// The page: takes the stream, and hands each frame to those who show a part of it.

import {$, el, keyed, put} from './dom.js';
import {duration} from './format.js';
import {drawTiles} from './tiles.js';
import {Chart} from './chart.js';
import {drawSales} from './sales.js';
import {drawBans, drawQueue, drawRules, drawSemaphores} from './lists.js';
import {drawLatest} from './latest.js';
import './explain.js';

const chart = new Chart($('#chart'), $('#legend'));
let heard = 0;

function state(text, kind) {
  const node = put($('#state'), text);
  if (node.dataset.kind !== kind) node.dataset.kind = kind;
}

function draw(frame) {
  const p = frame.process;
  document.documentElement.dataset.seq = frame.seq;
  keyed($('#degraded'), p.degraded ?? [], (text) => text, (text) => el('li', {}, text), () => {});
  state(p.degraded?.length ? 'degraded' : 'live', p.degraded?.length ? 'bad' : 'good');
  put($('#about'), `rules ${p.rules} · ${p.processes === 1 ? '1 process' : p.processes + ' processes'} · counted over ${duration(frame.window_ms)} · ${p.version}`);
  drawTiles($('#tiles'), frame);
  chart.add(frame);
  drawSales($('#sales .list'), frame.sales);
  drawQueue($('#queue .list'), frame.queue);
  drawSemaphores($('#semaphores .list'), frame.semaphores);
  drawRules($('#rules .list'), frame.rules);
  drawBans($('#bans .list'), frame.bans, frame.at);
  drawLatest(frame.latest);
}

// A browser opens the stream again by itself, except where the server refuses it.
let source;
function connect() {
  source?.close();
  source = new EventSource('/events');
  source.addEventListener('history', (event) => { heard = Date.now(); chart.reset(JSON.parse(event.data)); });
  source.addEventListener('frame', (event) => { heard = Date.now(); draw(JSON.parse(event.data)); });
  source.onerror = () => {
    state('no connection', 'bad');
    if (source.readyState === EventSource.CLOSED) setTimeout(connect, 2000);
  };
}
connect();

// Numbers that stand still must not look like numbers of now.
setInterval(() => {
  const silent = Date.now() - heard;
  const stale = heard > 0 && silent > 3000;
  document.body.classList.toggle('stale', stale);
  if (stale) state(`no news for ${duration(silent)}`, 'bad');
}, 1000);
