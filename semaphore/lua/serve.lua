-- number returns the next token, or place in the queue, of several semaphores at once: larger than any before in each of them. It follows the
-- clock, so that it grows across a loss of Redis' memory too.
local function number(all)
  local n = now
  for _, s in ipairs(all) do n = math.max(n, s.last + 1) end
  for _, s in ipairs(all) do s.last = n end
  return n
end

-- others are the names of all semaphores but s, as a permit's id has them.
local function others(all, s)
  local names = ''
  for _, other in ipairs(all) do
    if other ~= s then names = names .. '~' .. other.name end
  end
  return names
end

-- grant makes key a holder of all these, until the shortest of their leases ends, or for a claim until it is taken.
local function grant(all, key, e)
  local lease = all[1].lease
  for _, s in ipairs(all) do lease = math.min(lease, s.lease) end
  local waited = e.token == 0 and e.since or now
  e.token, e.since, e.lease, e.called = number(all), now, lease, nil
  for _, s in ipairs(all) do
    e.also = others(all, s)
    call('ZADD', s.holders, text(now + (e.claimed and CLAIM or lease)), key)
    write(s, key, e)
    if e.weight > 1 then call('HSET', s.weights, key, e.weight) end
    s.used = s.used + e.weight
    count(s, 'granted')
    if waited < now then
      count(s, 'waited')
      count(s, 'waited_us', now - waited)
    end
  end
end

local function fits(s, e) return now >= s.quiet and s.used + e.weight <= s.limit end

-- serve hands what is free to those who wait, first in first out. Nobody passes the first one, however much it asks for.
local function serve(s)
  while s.limit do
    local key = call('ZRANGE', s.queue, 0, 0)[1]
    if not key then return end
    local e = entry(s, key)
    if not e or not call('ZSCORE', s.processes, e.process) then
      leave(s, key) -- its process has died
      count(s, 'abandoned')
    elseif e.weight > s.limit and s.limit > 0 then
      leave(s, key) -- the limit has shrunk; it asks again, and is told
      tell(e.process, 'come ' .. key .. ' ' .. s.name)
    elseif not fits(s, e) then
      return
    elseif not e.multi then
      call('ZREM', s.queue, key)
      e.claimed = e.process ~= process
      grant({ s }, key, e)
      if e.claimed then
        tell(e.process, 'come ' .. key .. ' ' .. s.name)
      else -- its process is the one that asks, and so reads the reply
        granted[#granted + 1] = key
        granted[#granted + 1] = text(e.token)
        granted[#granted + 1] = text(e.lease)
      end
    elseif not e.called then
      -- It waits for other semaphores too, whose keys are not at hand: it is called to ask again itself.
      e.called = now
      write(s, key, e)
      return tell(e.process, 'come ' .. key .. ' ' .. s.name)
    elseif e.called < 0 or now - e.called < CLAIM then
      return -- it is held up elsewhere, or on its way
    else
      call('ZREM', s.processes, e.process) -- it did not come
    end
  end
end

-- expected is about how long until the place n of a queue is served, as long as permits have been held lately; 0 is not known.
local function expected(s, n)
  if now < s.quiet then return s.quiet - now end
  return s.limit > 0 and math.ceil(s.hold * n / s.limit) or 0
end
