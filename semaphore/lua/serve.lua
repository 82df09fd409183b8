-- number returns the next token, or place in the queue, for several semaphores: larger than all earlier ones in each of them. It follows
-- the clock, so that it also increases after Redis has lost its data.
local function number(all)
  local n = now
  for _, s in ipairs(all) do n = math.max(n, s.last + 1) end
  for _, s in ipairs(all) do s.last = n end
  return n
end

-- others returns the names of all semaphores except s, in the format of a permit's id.
local function others(all, s)
  local names = ''
  for _, other in ipairs(all) do
    if other ~= s then names = names .. '~' .. other.name end
  end
  return names
end

-- shortest returns the lease of a permit of all these semaphores.
local function shortest(all)
  local lease = all[1].lease
  for _, s in ipairs(all) do lease = math.min(lease, s.lease) end
  return lease
end

-- grant makes key a holder of all these semaphores, until the shortest of their leases ends, or until the end of the claim time if
-- unclaimed.
local function grant(all, key, e)
  local token, since, lease = number(all), e.since or now, shortest(all)
  for _, s in ipairs(all) do
    local own = {
      weight = e.weight, token = token, since = now, process = e.process, holder = e.holder, unclaimed = e.unclaimed,
      attempt = e.attempt, before = e.before, also = others(all, s),
    }
    hold(s, key, own, now + (e.unclaimed and CLAIM_TIME or lease))
    s.used, s.granted = s.used + e.weight, s.granted + 1
    if since < now then
      s.waited, s.waited_us = s.waited + 1, s.waited_us + now - since
    end
  end
  if e.before then tell(e.before, 'come ' .. key .. ' ' .. all[1].name) end -- it may wait with the same request
  return token, lease
end

local function fits(s, weight) return now >= s.quiet and s.used + weight <= s.limit end

-- serve hands free permits to waiters in FIFO order. No waiter overtakes the first one, whatever its weight.
local function serve(s)
  while s.limit do
    local key = head(s)
    if not key then return end
    local e = entry(s, key)
    local dead = not e or not alive(s, e)
    local heavy = not dead and e.weight > s.limit and s.limit > 0
    if not dead and not heavy and not fits(s, e.weight) then return end
    if served >= MOST then
      if served == MOST and e then tell(e.process, 'look ' .. s.name) end -- the next script continues
      served = MOST + 1
      return
    end
    served = served + 1
    if dead then
      leave(s, key)
      s.abandoned = s.abandoned + 1
    elseif heavy then
      leave(s, key) -- the limit was lowered; it asks again and gets the error
      tell(e.process, 'come ' .. key .. ' ' .. s.name)
    elseif not e.multi then
      quit(s, key)
      e.unclaimed = e.process ~= process or not e.attempt or e.attempt == 0
      local token, lease = grant({ s }, key, e)
      if e.unclaimed then
        tell(e.process, 'come ' .. key .. ' ' .. s.name)
      else -- its process is the caller and reads the reply, by which the one call that it is for gets or gives up the permit
        granted[#granted + 1] = key
        granted[#granted + 1] = token
        granted[#granted + 1] = lease
        granted[#granted + 1] = s.name
        granted[#granted + 1] = e.attempt
      end
    elseif e.called == 0 then
      -- It waits for other semaphores too, whose keys are not in this script: notify it to ask again.
      e.called = now
      write(s, key, e)
      return tell(e.process, 'come ' .. key .. ' ' .. s.name)
    elseif e.called > now then -- the clock was set back
      e.called = now
      write(s, key, e)
      return
    elseif e.called < 0 or now - e.called < CLAIM_TIME then
      return -- blocked by another semaphore, or about to ask
    else
      leave(s, key) -- it did not ask in time
      s.abandoned = s.abandoned + 1
    end
  end
end

-- expected estimates the time until position n of a queue is served, from recent holding times; 0 is unknown.
local function expected(s, n)
  if now < s.quiet then return s.quiet - now end
  return s.limit > 0 and math.ceil(s.hold * n / s.limit) or 0
end

-- next_change returns the µs until a lease may end, or until grants resume.
local function next_change(s)
  if now < s.quiet then return s.quiet - now end
  if not s.next then
    local ends = call('ZRANGE', s.keys.holders, 0, 0, 'WITHSCORES')[2]
    s.next = ends and math.max(0, ends - now) or s.longest
  end
  return s.next
end
