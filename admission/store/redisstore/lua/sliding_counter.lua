-- The sliding counter: a STRING of three numbers: k, the number of the window since 1970, the units of window k, and those of the one
-- before it, which count in the share that the sliding window still covers. TTL until the next window ends.

local sliding_counter = {}

-- Returns how much p units of the previous window count, e µs into this one.
local function weighted(p, e, window) return ceil(p * (window - e) / window) end

-- After a small step back the time is the beginning of the stored window. After a larger one all units count in the current window: as many
-- as the limit, unless one window had more.
function sliding_counter.read(t, now)
  local limit, window, cost = t.limit, t.window, t.cost
  local k, cur, prev = floor(now / window), 0, 0
  local state = state_of(t.key, 16)
  if state then
    local stored, a, b = unpack('>I8I4I4', state)
    if stored * window > now + step then
      stored, a, b = k, max(a, min(limit, a + b)), 0
      pcall(save, t.key, pack('>I8I4I4', k, a, 0), (k + 2) * window - now)
    end
    if stored >= k then
      if stored > k then k, now = stored, stored * window end
      cur, prev = a, b
    elseif stored == k - 1 then
      prev = a
    end
  end
  local e = now - k * window
  local used = cur + weighted(prev, e, window)
  t.k, t.cur, t.prev, t.time = k, cur, prev, now
  if limit > used then t.remaining = limit - used end
  if cur > 0 then
    t.reset_after = (k + 2) * window - now
  elseif prev > 0 then
    t.reset_after = (k + 1) * window - now
  end
  if cost > limit then
    t.word = 'cost_above_limit'
  elseif used + cost > limit then
    t.word = 'rate_limited'
    local room = limit - cost
    local fits = room - cur -- units of the previous window that leave enough room
    local from = 0
    if fits < 0 then -- no room in this window
      prev, fits, from = cur, room, window
    end
    local at = window - floor(fits * window / prev)
    while weighted(prev, at, window) > fits do at = at + 1 end -- corrects rounding
    t.retry_after = from + at - e
  end
end

local function write(t)
  save(t.key, pack('>I8I4I4', t.k, t.cur, t.prev), (t.k + 2) * t.window - t.time)
end

function sliding_counter.charge(t)
  t.cur = t.cur + t.cost
  write(t)
  t.remaining, t.reset_after, t.stamp = t.remaining - t.cost, (t.k + 2) * t.window - t.time, t.k
end

function sliding_counter.reject(t)
  t.cur = min(t.cur + t.cost, 1e9)
  write(t)
end

function sliding_counter.refund(t, stamp)
  local state = state_of(t.key, 16)
  if not state then return end
  local k, cur, prev = unpack('>I8I4I4', state)
  if k == stamp then
    cur = max(0, cur - t.cost)
  elseif k == stamp + 1 then
    prev = max(0, prev - t.cost)
  else
    return
  end
  call('SET', t.key, pack('>I8I4I4', k, cur, prev), 'KEEPTTL')
end

algorithms.sliding_counter = sliding_counter
