-- Strikes: a sliding log of refusals. The refusal that reaches limit within the window deletes the log and is reported.

strikes = {}

-- Adds the arguments of strikes to t, and returns the position of the next arguments.
function strikes.arguments(t, at, keys)
  local s = {key = KEYS[keys + 1], word = 'admitted', remaining = 0, retry_after = 0, reset_after = 0}
  s.limit, s.window, s.cost, at = unpack('>I4I8I4', arguments, at)
  t.strikes = s
  return at, keys + 1
end

-- Counts the refusals of t.
function strikes.count(t, now)
  local s = t.strikes
  if s.cost == 0 then return end
  sliding_log.read(s, now)
  if s.cost < s.remaining then
    sliding_log.charge(s)
  else
    call('DEL', s.key)
    t.struck = true
  end
end
