-- The exact sliding log: a STRING of the times of all units, 8 bytes each (µs, big endian), oldest first. A unit counts from
-- its own time on for one window, without the end. TTL one window.

-- Up to this limit a log is read and written as a whole, and takes no more bytes than its units; above it in places: a whole log
-- of 256 units takes Redis one and a half times as long, one of 1000 four times.
local whole = 128

local sliding_log = {}

-- The time of unit i of t, from 0.
local function time_of(t, i)
  if t.log then return (unpack('>I8', t.log, i * 8 + 1)) end
  return (unpack('>I8', call('GETRANGE', t.key, i * 8, i * 8 + 7)))
end

-- How many of the units of t are not later than edge. Looks at the oldest, then in doubling steps, then halves: few looks both
-- where nothing is old and where thousands are.
local function not_later(t, edge)
  local n = t.units
  if n == 0 or time_of(t, 0) > edge then return 0 end
  local low, high = 0, 1 -- low is not later
  while high < n and time_of(t, high) <= edge do low, high = high, high * 2 end
  if high > n then high = n end -- n, or later
  while high - low > 1 do
    local middle = floor((low + high) / 2)
    if time_of(t, middle) <= edge then low = middle else high = middle end
  end
  return high
end

-- A clock that has stepped back, as after a failover, waits at the newest unit: so the log stays in order and no unit counts
-- for less than its window.
function sliding_log.read(t, now)
  local limit, window, live = t.limit, t.window, 0
  if limit <= whole then
    t.log = call('GET', t.key) or ''
    t.units = #t.log / 8
  else
    t.log, t.units = false, call('STRLEN', t.key) / 8
  end
  t.gone = 0
  if t.units > 0 then
    local newest = time_of(t, t.units - 1)
    if newest > now then now = newest end
    t.gone = not_later(t, now - window)
    live = t.units - t.gone
    if live > 0 then t.reset_after = newest + window - now end
  end
  t.time = now
  if limit > live then t.remaining = limit - live end
  local over = live + t.cost - limit -- units that have to go first
  if t.cost > limit then
    t.word = 'cost_above_limit'
  elseif over > 0 then
    t.word = 'rate_limited'
    t.retry_after = time_of(t, t.gone + over - 1) + window - now
  end
end

-- Writes t with n more units of its time, without the `old` oldest ones.
local function add(t, n, old)
  local new = pack('>I8', t.time)
  if n > 1 then new = string.rep(new, n) end
  if t.log then
    save(t.key, string.sub(t.log, old * 8 + 1) .. new, t.window)
  elseif old * 2 > t.units then -- moved at most once for each unit dropped
    save(t.key, call('GETRANGE', t.key, old * 8, -1) .. new, t.window)
  else
    call('APPEND', t.key, new)
    call('PEXPIRE', t.key, ceil(t.window / 1000) + 1000)
  end
end

function sliding_log.charge(t)
  add(t, t.cost, t.gone)
  t.remaining, t.reset_after, t.stamp = t.remaining - t.cost, t.window, t.time
end

-- Keeps no more than limit units: a caller who goes on although refused must not fill the memory.
function sliding_log.reject(t)
  local n = min(t.cost, t.limit)
  add(t, n, max(t.gone, t.units + n - t.limit))
end

function sliding_log.refund(t, stamp)
  t.log = call('GET', t.key) or ''
  t.units = #t.log / 8
  local last = not_later(t, stamp)
  local first = last
  while first > 0 and last - first < t.cost and time_of(t, first - 1) == stamp do first = first - 1 end
  if first < last then
    call('SET', t.key, string.sub(t.log, 1, first * 8) .. string.sub(t.log, last * 8 + 1), 'KEEPTTL')
  end
end

-- Takes the newest units away. Of more than limit the newest limit are as good as all: in places, reject leaves older ones.
function sliding_log.erase(t)
  local old, left = max(0, t.units - t.limit), t.units - t.cost
  if left <= old then
    call('DEL', t.key)
  else
    call('SET', t.key, call('GETRANGE', t.key, old * 8, left * 8 - 1), 'KEEPTTL')
  end
end

algorithms.sliding_log = sliding_log
