-- The exact sliding log: a STRING of the times of all units, 8 bytes each (µs, big endian), oldest first. A unit counts from its time on
-- for one window, end excluded. TTL one window.

-- Up to this limit a log is read and written as a whole, and has no unused bytes; above it only parts are read and written. Handling a
-- log of 256 units as a whole takes Redis one and a half times as long, one of 1000 four times.
local whole = 128

local sliding_log = {}

local function read_whole(t)
  t.log = try('GET', t.key) or ''
  if #t.log % 8 ~= 0 then t.log = '' end -- no log: the next write replaces it
  t.units = #t.log / 8
end

-- Returns the time of unit i of t, counted from 0.
local function time_of(t, i)
  if t.log then return (unpack('>I8', t.log, i * 8 + 1)) end
  return (unpack('>I8', call('GETRANGE', t.key, i * 8, i * 8 + 7)))
end

-- Returns how many of the units of t are not later than edge. Searches from the oldest in doubling steps, then by bisection: few reads
-- both if nothing has expired and if thousands have.
local function not_later(t, edge)
  local n = t.units
  if n == 0 or time_of(t, 0) > edge then return 0 end
  local low, high = 0, 1 -- low is not later than edge
  while high < n and time_of(t, high) <= edge do low, high = high, high * 2 end
  if high > n then high = n end -- n: end of the log, or later than edge
  while high - low > 1 do
    local middle = floor((low + high) / 2)
    if time_of(t, middle) <= edge then low = middle else high = middle end
  end
  return high
end

-- Units from the future count from now on.
local function cut(t, now)
  local past = not_later(t, now)
  t.log = string.sub(t.log or call('GET', t.key), 1, past * 8) .. string.rep(pack('>I8', now), t.units - past)
  pcall(save, t.key, t.log, t.window)
end

-- After a small step back the time is that of the newest unit: so the log stays sorted and no unit counts for less than its window.
function sliding_log.read(t, now)
  local limit, window, live = t.limit, t.window, 0
  if limit <= whole then
    read_whole(t)
  else
    local bytes = try('STRLEN', t.key)
    if bytes and bytes % 8 == 0 then
      t.log, t.units = false, bytes / 8
    else
      t.log, t.units = '', 0 -- no log: the next write replaces it
    end
  end
  t.gone = 0
  if t.units > 0 then
    local newest = time_of(t, t.units - 1)
    if newest > now + step then
      cut(t, now)
      newest = now
    end
    if newest > now then now = newest end
    t.gone = not_later(t, now - window)
    live = t.units - t.gone
    if live > 0 then t.reset_after = newest + window - now end
  end
  t.time = now
  if limit > live then t.remaining = limit - live end
  local over = live + t.cost - limit -- units that must expire first
  if t.cost > limit then
    t.word = 'cost_above_limit'
  elseif over > 0 then
    t.word = 'rate_limited'
    t.retry_after = time_of(t, t.gone + over - 1) + window - now
  end
end

-- Writes t with n more units at its time, without the `old` oldest ones.
local function add(t, n, old)
  local new = pack('>I8', t.time)
  if n > 1 then new = string.rep(new, n) end
  if t.log then
    save(t.key, string.sub(t.log, old * 8 + 1) .. new, t.window)
  elseif old * 2 > t.units then -- at most one move per dropped unit
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

-- Keeps at most limit units: a caller that continues after refusals must not fill the memory.
function sliding_log.reject(t)
  local n = min(t.cost, t.limit)
  add(t, n, max(t.gone, t.units + n - t.limit))
end

function sliding_log.refund(t, stamp)
  read_whole(t)
  local last = not_later(t, stamp)
  local first = last
  while first > 0 and last - first < t.cost and time_of(t, first - 1) == stamp do first = first - 1 end
  if first < last then
    call('SET', t.key, string.sub(t.log, 1, first * 8) .. string.sub(t.log, last * 8 + 1), 'KEEPTTL')
  end
end

-- Removes the newest units. Of more than limit units only the newest limit have an effect; a log written in parts may hold older ones after reject.
function sliding_log.erase(t)
  local old, left = max(0, t.units - t.limit), t.units - t.cost
  if left <= old then
    call('DEL', t.key)
  else
    call('SET', t.key, call('GETRANGE', t.key, old * 8, left * 8 - 1), 'KEEPTTL')
  end
end

algorithms.sliding_log = sliding_log
