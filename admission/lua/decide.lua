-- Decides all tallies of one request in one slot.
--
-- KEYS[i]  counter of tally i
-- ARGV[1]  charge, check, or refund (takes back what an earlier charge counted)
-- ARGV[2]  the time in µs, for tests; 0 = Redis' own clock, the only one that all callers share
-- ARGV[3…] five for each tally: limit, window (µs), cost, 1 if shadow else 0, stamp (refund only, else 0)
--
-- Replies five for each tally, as it stands afterwards: admitted, rate_limited or cost_above_limit; remaining; retry-after and
-- reset-after in µs; the stamp under which it was read or charged.
--
-- Must be atomic: between looking at the tallies and counting in them nobody else may count, or the limit is passed;
-- and a request that one tally refuses must not be counted in another.

local mode, now = ARGV[1], tonumber(ARGV[2])
if now == 0 then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
end

local tallies, fits = {}, true
for i, key in ipairs(KEYS) do
  local a = 3 + (i - 1) * 5
  local t = {
    key = key,
    limit = tonumber(ARGV[a]),
    window = tonumber(ARGV[a + 1]),
    cost = tonumber(ARGV[a + 2]),
    shadow = ARGV[a + 3] == '1',
  }
  if mode == 'refund' then sliding_log.refund(t, ARGV[a + 4]) end
  sliding_log.read(t, now)
  if t.word ~= 'admitted' and not t.shadow then fits = false end
  tallies[i] = t
end

local reply = {}
for _, t in ipairs(tallies) do
  if mode == 'charge' and fits and t.word == 'admitted' then sliding_log.charge(t) end
  reply[#reply + 1] = t.word
  reply[#reply + 1] = t.remaining
  reply[#reply + 1] = t.retry_after
  reply[#reply + 1] = t.reset_after
  reply[#reply + 1] = t.now
end
return reply
