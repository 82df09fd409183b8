-- The fixed window: a STRING of its end (µs) and its units. The first unit opens it for t.window, or it is the span [start, stop) of a
-- calendar. TTL until its end.

local fixed_window = {}

-- The caller computes calendar spans in a time zone, but the time is Redis': a span that does not contain it is rejected.
function fixed_window.arguments(t, at, keys)
  local start
  start, t.stop, at = unpack('>I8I8', arguments, at)
  if t.stop > 0 then
    t.window = t.stop - start
    if now < start or now >= t.stop then wrong_span = true end
  end
  return at, keys
end

-- Returns the end of a stored window, cut to `latest`, that of one opened now. After a small step back the stored window is that of the
-- calendar's next span, at most twice as long.
local function cut(t, stored, units, latest, now)
  local ahead, small = stored - latest, step
  if t.stop > 0 then small = latest - now <= step and 2 * t.window or 0 end
  if ahead <= small then return stored end
  pcall(save, t.key, pack('>I8I4', latest, units), latest - now)
  return latest
end

-- After a small step back the time is the beginning of the stored window.
function fixed_window.read(t, now)
  local stop, count = t.stop, 0
  local state = state_of(t.key, 12)
  if state then
    local stored, units = unpack('>I8I4', state)
    local latest = stop > 0 and stop or now + t.window
    if stored > latest then stored = cut(t, stored, units, latest, now) end
    if t.stop > 0 then
      if stored >= stop then stop, count = stored, units end
    elseif now < stored then
      stop, count, now = stored, units, max(now, stored - t.window)
    end
  end
  if stop == 0 then stop = now + t.window end
  t.ends, t.count, t.time = stop, count, now
  if t.limit > count then t.remaining = t.limit - count end
  if count > 0 then t.reset_after = stop - now end
  if t.cost > t.limit then
    t.word = 'cost_above_limit'
  elseif count + t.cost > t.limit then
    t.word, t.retry_after = 'rate_limited', stop - now
  end
end

function fixed_window.charge(t)
  save(t.key, pack('>I8I4', t.ends, t.count + t.cost), t.ends - t.time)
  t.remaining, t.reset_after, t.stamp = t.remaining - t.cost, t.ends - t.time, t.ends
end

function fixed_window.reject(t)
  save(t.key, pack('>I8I4', t.ends, min(t.count + t.cost, 1e9)), t.ends - t.time)
end

-- A window without units is deleted, as if it had never been opened.
function fixed_window.refund(t, stamp)
  local state = state_of(t.key, 12)
  if not state then return end
  local stop, count = unpack('>I8I4', state)
  if stop ~= stamp then return end
  if count > t.cost then
    call('SET', t.key, pack('>I8I4', stop, count - t.cost), 'KEEPTTL')
  else
    call('DEL', t.key)
  end
end

algorithms.fixed_window = fixed_window
