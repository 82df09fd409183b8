-- The exact sliding log: a LIST of the times (µs) of all units admitted, oldest first. A unit counts from its own time on for
-- one window, without the end. A list takes a quarter of a sorted set's memory, and equal times need no tie-breaker.

local call = redis.call

-- How many of the n units of key count no more, that is, are not later than edge. Looks at the oldest, then in doubling
-- steps, then halves: few looks both where nothing is old and where thousands are.
local function expired(key, n, edge)
  local function old(i) return tonumber(call('LINDEX', key, i)) <= edge end
  if n == 0 or not old(0) then return 0 end
  local low, high = 0, 1 -- low is old
  while high < n and old(high) do low, high = high, high * 2 end
  if high > n then high = n end -- n, or not old
  while high - low > 1 do
    local middle = math.floor((low + high) / 2)
    if old(middle) then low = middle else high = middle end
  end
  return high
end

local sliding_log = {}

-- How t (key, limit, window and cost) stands at now. A clock that has stepped back, as after a failover, waits at the newest
-- unit: so the list stays in order and no unit counts for less than its window.
function sliding_log.read(t, now)
  local n = call('LLEN', t.key)
  if n > 0 then
    t.newest = tonumber(call('LINDEX', t.key, -1))
    if t.newest > now then now = t.newest end
  end
  t.now = now
  t.gone = expired(t.key, n, now - t.window)
  local live = n - t.gone
  t.word, t.remaining, t.retry_after, t.reset_after = 'admitted', math.max(0, t.limit - live), 0, 0
  if live > 0 then t.reset_after = t.newest + t.window - now end
  local over = live + t.cost - t.limit -- units that have to go first
  if t.cost > t.limit then
    t.word = 'cost_above_limit'
  elseif over > 0 then
    t.word = 'rate_limited'
    t.retry_after = tonumber(call('LINDEX', t.key, t.gone + over - 1)) + t.window - now
  end
end

-- Counts t at the time of its reading. The key outlives its window by a second, so that it is never Redis' expiry,
-- which is a little coarse, that ends a unit.
function sliding_log.charge(t)
  if t.gone > 0 then call('LTRIM', t.key, t.gone, -1) end
  local stamp, left = string.format('%.0f', t.now), t.cost
  while left > 0 do
    local units = {}
    for i = 1, math.min(left, 1000) do units[i] = stamp end -- unpack has no room for more than some thousands
    call('RPUSH', t.key, unpack(units))
    left = left - #units
  end
  call('PEXPIRE', t.key, string.format('%.0f', t.window / 1000 + 1000))
  t.remaining, t.reset_after = t.remaining - t.cost, t.window
end

-- Takes back what was counted at stamp.
function sliding_log.refund(t, stamp)
  call('LREM', t.key, -t.cost, stamp)
end
