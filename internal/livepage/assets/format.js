// Numbers and times as people read them.

const whole = new Intl.NumberFormat('en', {maximumFractionDigits: 0});
const fine = new Intl.NumberFormat('en', {maximumFractionDigits: 1});
const clock = new Intl.DateTimeFormat('en-GB', {hour: '2-digit', minute: '2-digit', second: '2-digit'});
const moment = new Intl.DateTimeFormat('en-GB', {day: 'numeric', month: 'short', year: 'numeric', hour: '2-digit', minute: '2-digit'});

export const count = (n) => whole.format(n);
export const rate = (n) => (n > 0 && n < 10 ? fine : whole).format(n);
export const time = (text) => clock.format(new Date(text));
export const day = (text) => moment.format(new Date(text));
export const words = (text) => text.replaceAll('_', ' ');

/** seconds is a window as it truly was, such as 1.003 s. */
export const seconds = (ms) => (ms / 1000).toFixed(ms < 2000 ? 3 : 1) + ' s';

/** latency is such as 0.8 ms, 12 ms or 1.2 s, of microseconds. */
export const latency = (us) => (us < 9950 ? fine.format(us / 1000) + ' ms' : us < 999_500 ? whole.format(us / 1000) + ' ms' : fine.format(us / 1e6) + ' s');

/** plural is such as 1 worker or 2 workers. */
export const plural = (n, one, many = one + 's') => `${count(n)} ${n === 1 ? one : many}`;

/** duration is such as 3 s, 4 min 5 s or 2 h 10 min. */
export function duration(ms) {
  const s = Math.max(0, Math.round(ms / 1000));
  if (ms > 0 && ms < 1000) return whole.format(ms) + ' ms';
  for (const [unit, name, next, below] of [[86400, 'd', 3600, 'h'], [3600, 'h', 60, 'min'], [60, 'min', 1, 's']]) {
    if (s < unit) continue;
    const rest = Math.floor(s % unit / next);
    return `${Math.floor(s / unit)} ${name}` + (rest ? ` ${rest} ${below}` : '');
  }
  return s + ' s';
}

/** visible shows characters that would turn a text around, or show nothing, by their numbers. */
export const visible = (text) => text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (c) => `‹${c.codePointAt(0).toString(16)}›`);
