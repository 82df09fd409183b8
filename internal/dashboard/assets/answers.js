// How requests end, in the order in which the chart stacks them. What is not named here is "other".

export const answers = [
  {name: 'admitted', label: 'admitted', of: ['admitted']},
  {name: 'challenged', label: 'challenged', of: ['captcha_required']},
  {name: 'limited', label: 'too often', of: ['rate_limited', 'cost_above_limit']},
  {name: 'banned', label: 'banned', of: ['banned', 'forbidden']},
  {name: 'sold', label: 'sold out', of: ['sold_out', 'quota_exceeded', 'sale_not_open', 'sale_ended']},
  {name: 'other', label: 'other refusals', of: []},
];

const placeOf = new Map(answers.flatMap((a, i) => a.of.map((reason) => [reason, i])));

export const kindOf = (answer) => answers[placeOf.get(answer) ?? answers.length - 1].name;

/** rates are the answers of a frame per second, in the order above. */
export function rates(frame) {
  const sums = answers.map(() => 0);
  for (const [answer, n] of Object.entries(frame.answers)) sums[placeOf.get(answer) ?? sums.length - 1] += n;
  return sums.map((n) => n * 1000 / Math.max(1, frame.window_ms));
}
