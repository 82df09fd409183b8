// The page: takes the stream, and hands each frame to those who show a part of it.

import {$, el, keyed, put} from './dom.js';
import {duration, seconds, time} from './format.js';
import {drawTiles} from './tiles.js';
import {Chart} from './chart.js';
import {remember} from './curve.js';
import {drawSales} from './sales.js';
import {drawBans, drawQueue, drawRules, drawSemaphores} from './lists.js';
import {drawLatest} from './latest.js';
import {here} from './actions.js';

const chart = new Chart($('#chart'));
let heard = 0;

function state(text, kind) {
  const node = put($('#state'), text);
  if (node.dataset.kind !== kind) node.dataset.kind = kind;
}

function draw(frame) {
  const p = frame.process, degraded = p.degraded;
  document.documentElement.dataset.seq = frame.seq;
  keyed($('#degraded'), degraded, (text) => text, (text) => el('li', {}, text), () => {});
  state(degraded.length ? 'degraded' : 'live', degraded.length ? 'bad' : 'good');
  put($('#about'), `${time(frame.at)} · counted over ${seconds(frame.window_ms)} · rules ${p.rules} · ${p.processes === 1 ? '1 API' : p.processes + ' APIs'} · version ${p.version}`);
  for (const part of parts) {
    try {
      part(frame);
    } catch (error) {
      reportError(error); // and the others are drawn
    }
  }
}

const parts = [
  (frame) => drawTiles($('#tiles'), frame),
  (frame) => drawSales($('#sales .list'), frame.sales, frame.more_sales, frame.at),
  (frame) => chart.add(frame),
  (frame) => drawQueue($('#queue .list'), frame.queue, frame.window_ms),
  (frame) => drawSemaphores($('#semaphores .list'), frame.semaphores, frame.more_semaphores, frame.at),
  (frame) => drawRules($('#rules .list'), frame),
  (frame) => drawBans($('#bans .list'), frame.bans, frame.at),
  (frame) => drawLatest(frame.latest),
];

let source, again, unwanted = false;

// A browser opens the stream again by itself, except where the server refuses it. It has six connections to a server, of which a stream
// keeps one: a page that nobody sees has none, or a few tabs would let no change through.
function connect() {
  clearTimeout(again);
  source?.close();
  if (document.hidden) return;
  source = new EventSource(here('/events'));
  source.addEventListener('history', (event) => {
    const past = JSON.parse(event.data);
    chart.reset(past.frames);
    remember(past.stock);
  });
  source.addEventListener('frame', (event) => { heard = Date.now(); unwanted = false; draw(JSON.parse(event.data)); });
  source.onerror = () => {
    state('no connection', 'bad');
    if (source.readyState === EventSource.CLOSED) refused();
  };
}

// A stream does not say why it is refused; another question, for which no browser asks for a password, does.
async function refused() {
  const {status} = await fetch(here('/v1/rules'), {signal: AbortSignal.timeout(2000)}).catch(() => ({}));
  if (source.readyState !== EventSource.CLOSED) return; // there is another by now
  unwanted = status === 401 || status === 403;
  if (unwanted) state('the token does not hold any more: open this page again', 'bad');
  clearTimeout(again);
  again = setTimeout(connect, unwanted ? 30_000 : 2000);
}

document.addEventListener('visibilitychange', connect);
connect();

// Numbers that stand still must not look like numbers of now.
setInterval(() => {
  const silent = Date.now() - heard, stale = heard > 0 && silent > 3000;
  document.body.classList.toggle('stale', stale);
  if (stale && !unwanted) state(`no news for ${duration(silent)}`, 'bad');
}, 1000);
