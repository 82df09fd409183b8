-- The generic cell rate algorithm: a STRING of the theoretical arrival time (µs) and the interval of one unit when it was computed. Units
-- drain at an even rate; the level is what has not drained yet, at most a burst. TTL until it is empty.

local gcra = {}

function gcra.arguments(t, at, keys)
  t.burst, at = unpack('>I4', arguments, at)
  return at, keys
end

-- The level is capped at a burst. If the arrival time is further ahead than any limit of this window has set it, the clock was set back;
-- it drains from now on.
function gcra.read(t, now)
  local unit, level = ceil(t.window / t.limit), 0
  local most = t.burst * unit
  local state = state_of(t.key, 16)
  if state then
    local tat, reckoned = unpack('>I8I8', state)
    local full = t.burst * reckoned
    if tat - now > max(full, 2 * t.window) then
      tat = now + full
      pcall(save, t.key, pack('>I8I8', tat, reckoned), full)
    end
    level = max(0, tat - now)
    if reckoned ~= unit then level = ceil(level * unit / reckoned) end -- the limit has changed: keep the number of units
    level = min(level, most)
  end
  t.unit, t.level, t.most, t.time = unit, level, most, now
  t.remaining, t.reset_after = floor((most - level) / unit), level
  local over = level + t.cost * unit - most
  if t.cost > t.burst then
    t.word = 'cost_above_limit'
  elseif over > 0 then
    t.word, t.retry_after = 'rate_limited', over
  end
end

local function write(t)
  save(t.key, pack('>I8I8', t.time + t.level, t.unit), t.level)
end

function gcra.charge(t)
  t.level = t.level + t.cost * t.unit
  write(t)
  t.remaining, t.reset_after, t.stamp = floor((t.most - t.level) / t.unit), t.level, t.time + t.level
end

function gcra.reject(t)
  t.level = min(t.most, t.level + t.cost * t.unit)
  write(t)
end

-- Units that have drained already are not refunded.
function gcra.refund(t, stamp, now)
  local state = state_of(t.key, 16)
  if not state then return end
  local tat, unit = unpack('>I8I8', state)
  call('SET', t.key, pack('>I8I8', tat - min(t.cost * unit, max(0, stamp - now)), unit), 'KEEPTTL')
end

algorithms.gcra = gcra
