// The page: takes the stream, and hands each frame to those who show a part of it.

import {$, el, keyed, put} from './dom.js';
import {duration, plural, seconds, time} from './format.js';
import {drawTiles} from './tiles.js';
import {Chart} from './chart.js';
import {remember} from './curve.js';
import {drawSales} from './sales.js';
import {drawRooms} from './rooms.js';
import {drawBans, drawQueue, drawRules, drawSemaphores, drawShards} from './lists.js';
import {drawLatest} from './latest.js';
import {here} from './actions.js';
import {onChange, role} from './session.js';

const chart = new Chart($('#chart'), $('#took'));
let heard = 0;

function state(text, kind) {
  const node = put($('#state'), text);
  if (node.dataset.kind !== kind) node.dataset.kind = kind;
}

function draw(frame) {
  const p = frame.process, warnings = p.warnings ?? [], degraded = p.degraded.filter((text) => !warnings.includes(text));
  document.documentElement.dataset.seq = frame.seq;
  list($('#degraded'), degraded);
  list($('#warnings'), warnings);
  state(degraded.length ? 'degraded' : 'live', degraded.length ? 'bad' : 'good');
  put($('#about'), `${time(frame.at)} · counted over ${seconds(frame.window_ms)} · rules ${p.rules} · ${plural(p.processes, 'API')}${p.workers === undefined ? '' : ' · ' + plural(p.workers, 'worker')} · version ${p.version}`);
  for (const part of parts) {
    try {
      part(frame);
    } catch (error) {
      reportError(error); // and the others are drawn
    }
  }
}

// By their places: a text that counts seconds stays the same element.
const list = (parent, texts) => keyed(parent, texts.map((text, i) => ({text, i})), ({i}) => i, () => el('li'), (node, {text}) => put(node, text));

const parts = [
  (frame) => drawTiles($('#tiles'), frame),
  (frame) => drawSales($('#sales .list'), frame.sales, frame.more_sales, frame.at),
  (frame) => drawRooms($('#rooms'), frame.rooms, frame.more_rooms, frame.at),
  (frame) => chart.add(frame),
  (frame) => drawQueue($('#queue .list'), frame.queue, frame.window_ms, frame.at),
  (frame) => drawSemaphores($('#semaphores .list'), frame.semaphores, frame.more_semaphores, frame.at),
  (frame) => drawRules($('#rules .list'), frame),
  (frame) => drawShards($('#shards .list'), frame.process.shards),
  (frame) => drawBans($('#bans .list'), frame.bans, frame.at),
  (frame) => drawLatest(frame.latest),
];

let source, again, signedOut = false;

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
  source.addEventListener('frame', (event) => { heard = Date.now(); draw(JSON.parse(event.data)); });
  source.onerror = () => {
    state('no connection', 'bad');
    if (source.readyState === EventSource.CLOSED) begin(true);
  };
}

// A stream that is refused does not say why, and shows an error on the console: who looks is asked first.
async function begin(refused = false) {
  clearTimeout(again);
  source?.close();
  if (document.hidden) return;
  signedOut = (await role().catch(() => 'not known')) === '';
  clearTimeout(again);
  if (signedOut) {
    if (heard) state('session ended: sign in again', 'bad');
    else state('sign in', '');
    again = setTimeout(begin, 30_000); // somebody may do so in another tab
  } else if (refused) {
    again = setTimeout(connect, 2000);
  } else {
    connect();
  }
}

onChange(() => { heard = 0; begin(); });
document.addEventListener('visibilitychange', () => begin());
begin();

// Numbers that stand still must not look like numbers of now.
setInterval(() => {
  const silent = Date.now() - heard, stale = heard > 0 && silent > 3000;
  document.body.classList.toggle('stale', stale);
  if (stale && !signedOut) state(`no data for ${duration(silent)}`, 'bad');
}, 1000);
