// Numbers and times as people read them.

const whole = new Intl.NumberFormat('en', {maximumFractionDigits: 0});
const fine = new Intl.NumberFormat('en', {maximumFractionDigits: 1});
const clock = new Intl.DateTimeFormat('en-GB', {hour: '2-digit', minute: '2-digit', second: '2-digit'});

export const count = (n) => whole.format(n);
export const rate = (n) => (n > 0 && n < 10 ? fine : whole).format(n);
export const time = (text) => clock.format(new Date(text));
export const percent = (share) => whole.format(100 * share) + ' %';

/** duration is such as 3 s, 4 min 5 s or 2 h 10 min. */
export function duration(ms) {
  if (ms < 1000) return ms <= 0 ? '0 s' : whole.format(ms) + ' ms';
  const s = Math.round(ms / 1000);
  if (s < 60) return s + ' s';
  if (s < 3600) return Math.floor(s / 60) + ' min' + (s % 60 ? ' ' + (s % 60) + ' s' : '');
  if (s < 86400) return Math.floor(s / 3600) + ' h' + (Math.floor(s / 60) % 60 ? ' ' + (Math.floor(s / 60) % 60) + ' min' : '');
  return Math.floor(s / 86400) + ' d' + (Math.floor(s / 3600) % 24 ? ' ' + (Math.floor(s / 3600) % 24) + ' h' : '');
}

/** visible shows characters that would turn a text around, or show nothing. */
export const visible = (text) => text.replace(/[\p{Cc}\p{Cf}]/gu, (c) => '\u2423' + c.codePointAt(0).toString(16) + '\u2423');
