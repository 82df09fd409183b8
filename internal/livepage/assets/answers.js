// How requests end, in the order in which the chart stacks them. A reason that is not named here belongs to the last.

export const answers = [
  {name: 'admitted', label: 'admitted', of: ['admitted']},
  {name: 'challenged', label: 'challenged', of: ['captcha_required']},
  {name: 'limited', label: 'rate limited', of: ['rate_limited', 'cost_above_limit']},
  {name: 'banned', label: 'banned', of: ['banned', 'forbidden', 'unauthenticated']},
  {name: 'early', label: 'not their turn', of: ['turn_required']},
  {name: 'sold', label: 'not on sale', of: ['sold_out', 'not_enough', 'quota_per_buyer', 'not_started', 'paused', 'ended']},
  {name: 'unable', label: 'unavailable', of: ['at_capacity', 'draining', 'recovering', 'store_unavailable', 'internal']},
  {name: 'other', label: 'invalid', of: ['unknown_sale', 'unknown_item', 'key_required', 'key_reused', 'invalid']},
];

const placeOf = new Map(answers.flatMap((a, i) => a.of.map((reason) => [reason, i])));
const place = (answer) => placeOf.get(answer) ?? answers.length - 1;

export const kindOf = (answer) => answers[place(answer)].name;

/** rates are the answers of a frame per second, in the order above; of each all reasons that occurred, the most frequent first. */
export function rates(frame) {
  const sums = answers.map(() => ({rate: 0, reasons: []}));
  for (const [reason, n] of Object.entries(frame.answers)) {
    const rate = n * 1000 / Math.max(1, frame.window_ms);
    sums[place(reason)].rate += rate;
    sums[place(reason)].reasons.push({reason, rate});
  }
  return sums;
}

/** totals are how often each reason occurred in some frames, in the order above, the most frequent first. */
export function totals(frames) {
  const sums = new Map();
  for (const frame of frames) for (const [reason, n] of Object.entries(frame.answers)) sums.set(reason, (sums.get(reason) ?? 0) + n);
  const sorted = [...sums].sort((a, b) => b[1] - a[1]);
  return answers.map((_, i) => sorted.filter(([reason]) => place(reason) === i));
}
